"""The registry of data sets: size, classes, source, licence and checksum of each."""

from dataclasses import dataclass
from string import ascii_uppercase
from typing import Literal


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
        Checksum of the file ``name.csv.gz``; empty for a set that is generated.
    availability : {"bundled", "generated", "data folder"}
        Whether the set comes with the library, is drawn by it, or is read from your data folder.
    kind : {"table", "image"}
        Rows of a table, or features of images.
    note : str
        What to know before comparing results on this set with others.

    Examples
    --------
    >>> from mdaml.datasets import list_datasets
    >>> list_datasets()[0]
    DatasetRecord(sonar: 208 x 60, 2 classes, bundled)
    """

    name: str
    n_samples: int
    n_features: int
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    source: str
    licence: str
    citation: str
    sha256: str = ""
    availability: Literal["bundled", "generated", "data folder"] = "bundled"
    kind: Literal["table", "image"] = "table"
    note: str = ""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    # With all fields, up to 542 feature names, a list of records would fill many screens.
    def __repr__(self) -> str:
        """Return name and size only."""
        return (
            f"{type(self).__name__}({self.name}: {self.n_samples} x {self.n_features}, "
            f"{self.n_classes} classes, {self.availability})"
        )


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
    note="The StatLog coding (A=100, C=010, G=001, T=000) of its 2000 training rows.",
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
    note="The class is the origin of the car; the six rows without horsepower are left out.",
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
    note="The paper uses 5000 of these rows and does not say which.",
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

WAVEFORM = DatasetRecord(
    name="waveform",
    n_samples=5000,
    n_features=21,
    class_names=("h1 and h2", "h1 and h3", "h2 and h3"),
    feature_names=tuple(f"x{i}" for i in range(1, 22)),
    source=_UCI + "107/waveform+database+generator+version+1",
    licence="none needed: drawn by this library",
    citation="L. Breiman, J. Friedman, R. Olshen and C. Stone, Classification and Regression "
    "Trees, Wadsworth, 1984; L. Breiman and C. Stone, Waveform Database Generator (Version 1), "
    "UCI Machine Learning Repository, doi:10.24432/C5CS3C",
    availability="generated",
    note="make_waveform(5000, random_state=0). The UCI file is another draw from the same "
    "distribution, in which labels 0 and 2 are exchanged.",
)

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
    note="The numeric version, whose columns have no names at the source.",
)

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
    note="Without region-pixel-count, which is 9 in every row of the source.",
)

_GIST = tuple(f"gist_{i}" for i in range(1, 513))

PUBFIG = DatasetRecord(
    name="pubfig",
    n_samples=772,
    n_features=542,
    class_names=(
        *("AlexRodriguez", "CliveOwen", "HughLaurie", "JaredLeto"),
        *("MileyCyrus", "ScarlettJohansson", "ViggoMortensen", "ZacEfron"),
    ),
    feature_names=(*_GIST, *(f"lab_{i}" for i in range(1, 31))),
    source="https://www.cc.gatech.edu/~parikh/relative.html",
    licence="none stated; the authors ask for citation",
    citation="D. Parikh and K. Grauman, Relative Attributes, ICCV 2011; images: N. Kumar, A. Berg, "
    "P. Belhumeur and S. Nayar, Attribute and Simile Classifiers for Face Verification, ICCV 2009",
    sha256="4f960b98cfa0d848588fddb80d6615b719b2d1449cafbde0f97691ae91cb5977",
    availability="data folder",
    kind="image",
    note="The release's own features: 512 of GIST, single precision there, so that "
    "data[:, :512].astype('float32') is the release's; then 30 of a Lab colour histogram.",
)

OSR = DatasetRecord(
    name="osr",
    n_samples=2688,
    n_features=512,
    class_names=(
        *("coast", "forest", "highway", "insidecity"),
        *("mountain", "opencountry", "street", "tallbuilding"),
    ),
    feature_names=_GIST,
    source="https://people.csail.mit.edu/torralba/code/spatialenvelope/",
    licence="none stated; the images are offered for research",
    citation="A. Oliva and A. Torralba, Modeling the Shape of the Scene: a Holistic Representation "
    "of the Spatial Envelope, IJCV 2001; as used by D. Parikh and K. Grauman, Relative "
    "Attributes, ICCV 2011",
    sha256="f423a388a95ca04a72048d1d2b8687dbb5cba63202436e317f48e88d091228b2",
    availability="data folder",
    kind="image",
    note="GIST of the 2688 images, computed anew with the settings that best reproduce the "
    "Relative Attributes release: close to the features of that release, not equal to them.",
)

CALTECH20 = DatasetRecord(
    name="caltech20",
    n_samples=1536,
    n_features=512,
    class_names=(
        *("binocular", "brain", "camera", "car_side", "dollar_bill", "Faces", "ferry"),
        *("garfield", "hedgehog", "Leopards", "Motorbikes", "pagoda", "rhino", "snoopy"),
        *("stapler", "stop_sign", "water_lilly", "windsor_chair", "wrench", "yin_yang"),
    ),
    feature_names=_GIST,
    source="https://doi.org/10.22002/D1.20086",
    licence=_CC_BY,
    citation="F.-F. Li, M. Andreeto, M. Ranzato and P. Perona, Caltech 101, CaltechDATA, 2022, "
    "doi:10.22002/D1.20086; classes: Y. Li, F. Nie, H. Huang and J. Huang, Large-Scale Multi-View "
    "Spectral Clustering via Bipartite Graph, AAAI 2015",
    sha256="56fb819b1dcd0eb7bc313eb59efccf9fac4a5f19d1ee4332639bf19c4097ba16",
    availability="data folder",
    kind="image",
    note="GIST of 1536 images of Caltech-101, a stand-in: the paper names neither its 20 classes "
    "nor its images. These are the classes of Caltech101-20, with Faces, Leopards and Motorbikes "
    "cut to their first 195, 194 and 194 images. Do not compare accuracies with the paper's.",
)

# In the order of the paper's tables.
DATASETS = {
    record.name: record
    for record in (
        *(SONAR, DNA, BALANCE, AUTOMPG, LETTER, VEHICLE, SPAMBASE, WAVEFORM, GERMAN, SEGMENT),
        *(PUBFIG, OSR, CALTECH20),
    )
}
