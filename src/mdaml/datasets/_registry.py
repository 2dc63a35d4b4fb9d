"""What is known of each data set: its size, its classes, where it comes from, its checksum."""

from dataclasses import dataclass
from string import ascii_uppercase


@dataclass(frozen=True)
class DatasetRecord:
    """One data set that `load_dataset` knows.

    Attributes
    ----------
    name : str
        What to pass to `load_dataset`.
    n_samples, n_features : int
        Shape of the data.
    class_names : tuple of str
        Name of label 0, 1, 2, ...
    feature_names : tuple of str
        Name of each column; ``f1, f2, ...`` where the source gives none.
    source : str
        Address of the data set's page.
    licence : str
        Licence under which the source offers the data.
    citation : str
        Who to cite.
    sha256 : str
        Checksum of the file ``name.csv.gz``.
    """

    name: str
    n_samples: int
    n_features: int
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    source: str
    licence: str
    citation: str
    sha256: str


_CC_BY = "CC BY 4.0"
_UCI = "https://archive.ics.uci.edu/dataset/"

_SPAM_WORDS = (
    "make address all 3d our over remove internet order mail receive will people report addresses "
    "free business email you credit your font 000 money hp hpl george 650 lab labs telnet 857 "
    "data 415 85 technology 1999 parts pm direct cs meeting original project re edu table "
    "conference"
)

SONAR = DatasetRecord(
    name="sonar",
    n_samples=208,
    n_features=60,
    class_names=("rock", "mine"),
    feature_names=tuple(f"band_{i}" for i in range(1, 61)),
    source=_UCI + "151/connectionist+bench+sonar+mines+vs+rocks",
    licence=_CC_BY,
    citation="T. Sejnowski and R. Gorman, Connectionist Bench (Sonar, Mines vs. Rocks), "
    "UCI Machine Learning Repository, doi:10.24432/C5T01Q",
    sha256="aef474cad994575b5030afd654ba02968bad90fe8f1df24cc5e38985ddc49f3a",
)

# The StatLog coding (A=100, C=010, G=001, T=000) of its 2000 training rows.
DNA = DatasetRecord(
    name="dna",
    n_samples=2000,
    n_features=180,
    class_names=("ei", "ie", "n"),
    feature_names=tuple(f"position_{i}_{base}" for i in range(1, 61) for base in "ACG"),
    source=_UCI + "69/molecular+biology+splice+junction+gene+sequences",
    licence=_CC_BY,
    citation="G. Towell, M. Noordewier and J. Shavlik, Molecular Biology (Splice-junction Gene "
    "Sequences), UCI Machine Learning Repository, doi:10.24432/C5M888; StatLog coding",
    sha256="d307b669f4f8c9c520d90ddad5151663842596064afcfc8176659d449cf28705",
)

BALANCE = DatasetRecord(
    name="balance",
    n_samples=625,
    n_features=4,
    class_names=("left", "balanced", "right"),
    feature_names=("left_weight", "left_distance", "right_weight", "right_distance"),
    source=_UCI + "12/balance+scale",
    licence=_CC_BY,
    citation="R. Siegler, Balance Scale (donated by T. Hume), "
    "UCI Machine Learning Repository, doi:10.24432/C5488X",
    sha256="49d972cd45adc45b78a26a4778fabafd3ac4e7284ebf358effae892ab5b6b353",
)

# The class is the origin of the car; the six rows without horsepower are left out.
AUTOMPG = DatasetRecord(
    name="autompg",
    n_samples=392,
    n_features=7,
    class_names=("US", "Europe", "Japan"),
    feature_names=(
        *("mpg", "cylinders", "displacement", "horsepower"),
        *("weight", "acceleration", "model_year"),
    ),
    source=_UCI + "9/auto+mpg",
    licence=_CC_BY,
    citation="R. Quinlan, Auto MPG, UCI Machine Learning Repository, doi:10.24432/C5859H",
    sha256="ce2f3b3e4406b749331b051228e121af3fbcf76627548b11ae2383c152e28699",
)

LETTER = DatasetRecord(
    name="letter",
    n_samples=20000,
    n_features=16,
    class_names=tuple(ascii_uppercase),
    feature_names=(
        *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
        *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
    ),
    source=_UCI + "59/letter+recognition",
    licence=_CC_BY,
    citation="D. Slate, Letter Recognition, UCI Machine Learning Repository, doi:10.24432/C5ZP40",
    sha256="cefe8a6983c33a7811e2bac9c11217db73e848060ec7b102c4467415339dcecd",
)

VEHICLE = DatasetRecord(
    name="vehicle",
    n_samples=846,
    n_features=18,
    class_names=("bus", "opel", "saab", "van"),
    feature_names=(
        *("compactness", "circularity", "distance_circularity", "radius_ratio"),
        *("axis_aspect_ratio", "max_length_aspect_ratio", "scatter_ratio", "elongatedness"),
        *("axis_rectangularity", "max_length_rectangularity"),
        *("variance_along_major_axis", "variance_along_minor_axis", "radius_of_gyration"),
        *("skewness_about_major_axis", "skewness_about_minor_axis"),
        *("kurtosis_about_minor_axis", "kurtosis_about_major_axis", "hollows_ratio"),
    ),
    source=_UCI + "149/statlog+vehicle+silhouettes",
    licence=_CC_BY,
    citation="P. Mowforth and B. Shepherd, Statlog (Vehicle Silhouettes), "
    "UCI Machine Learning Repository; from the Turing Institute, Glasgow",
    sha256="a16dfeb5b8991b496bde0b0140a725adab08308d2c4ce79058bd0bf288b031ae",
)

SPAMBASE = DatasetRecord(
    name="spambase",
    n_samples=4601,
    n_features=57,
    class_names=("not spam", "spam"),
    feature_names=(
        *(f"word_{word}" for word in _SPAM_WORDS.split()),
        *(f"char_{char}" for char in ";([!$#"),
        *("capital_run_average", "capital_run_longest", "capital_run_total"),
    ),
    source=_UCI + "94/spambase",
    licence=_CC_BY,
    citation="M. Hopkins, E. Reeber, G. Forman and J. Suermondt, Spambase, "
    "UCI Machine Learning Repository, doi:10.24432/C53G6X",
    sha256="e10cb1c05b9a1b0f9c11bfd1da77691b07ad72d344de3b065c3d4841935f1b69",
)

# The numeric version, whose columns have no names at the source.
GERMAN = DatasetRecord(
    name="german",
    n_samples=1000,
    n_features=24,
    class_names=("good", "bad"),
    feature_names=tuple(f"f{i}" for i in range(1, 25)),
    source=_UCI + "144/statlog+german+credit+data",
    licence=_CC_BY,
    citation="H. Hofmann, Statlog (German Credit Data), numeric version, "
    "UCI Machine Learning Repository, doi:10.24432/C5NC77",
    sha256="4fbf663998010ce01456418826d21dfc6ef5ea2f8c3e5557dc6d639028d130ac",
)

# Without region-pixel-count, which is 9 in every row of the source.
SEGMENT = DatasetRecord(
    name="segment",
    n_samples=2310,
    n_features=18,
    class_names=("brickface", "sky", "foliage", "cement", "window", "path", "grass"),
    feature_names=(
        *("centroid_col", "centroid_row", "short_line_density_5", "short_line_density_2"),
        *("vedge_mean", "vedge_sd", "hedge_mean", "hedge_sd", "intensity_mean"),
        *("rawred_mean", "rawblue_mean", "rawgreen_mean"),
        *("exred_mean", "exblue_mean", "exgreen_mean"),
        *("value_mean", "saturation_mean", "hue_mean"),
    ),
    source=_UCI + "50/image+segmentation",
    licence=_CC_BY,
    citation="Vision Group, University of Massachusetts (donated by C. Brodley), Image "
    "Segmentation, UCI Machine Learning Repository, doi:10.24432/C5GP4N",
    sha256="422a3323cac868f7abed473f1e4991e60f357e6a2161feb6a41663d7829bd329",
)

# Files of the package, read by `_load._read_bundled`. A set that is generated, or read from a
# data folder, gets a second table here and a second reader there.
BUNDLED = {
    record.name: record
    for record in (SONAR, DNA, BALANCE, AUTOMPG, LETTER, VEHICLE, SPAMBASE, GERMAN, SEGMENT)
}
