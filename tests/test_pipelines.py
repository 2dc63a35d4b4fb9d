"""Whole pipelines as one model."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import mdaml
from mdaml import GMML, LFDA, Euclidean, FoldedMetric, MDaML, MDaMLCV, audit, fold_pipeline
from mdaml.datasets import make_triplets
from mdaml.io.preparation import MISSING, Preparation


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * [1.0, 10.0, 0.1, 3.0, 1.0] + [5.0, -30.0, 0.0, 1.0, 2.0]
    T, _ = make_triplets(
        X / X.std(axis=0), n_triplets=300, components=np.eye(5)[:2], random_state=0
    )
    return X, T


LINEAR = {
    "scale": [StandardScaler()],
    "center": [StandardScaler(with_std=False)],
    "only scale": [StandardScaler(with_mean=False)],
    "scale, rotate": [StandardScaler(), PCA(3)],
    "rotate, whiten": [PCA(4, whiten=True)],
    "rotate, scale": [PCA(), StandardScaler()],
    "scale, reduce": [StandardScaler(with_mean=False), TruncatedSVD(3, random_state=0)],
    "min, max": [MinMaxScaler((-1, 2))],
    "robust": [MaxAbsScaler(), RobustScaler(with_centering=False)],
    "nothing": ["passthrough"],
}
NORMED = {
    "l2": [Normalizer()],
    "l1": [StandardScaler(), Normalizer("l1")],
    "max": [StandardScaler(), Normalizer("max"), PCA(3)],
    "all": [StandardScaler(), PCA(4), Normalizer(), StandardScaler(), Normalizer(), PCA(3)],
}
EVERY = LINEAR | NORMED


@pytest.fixture(scope="module", params=EVERY)
def folded(request, answers):
    X, T = answers
    pipeline = make_pipeline(*EVERY[request.param], MDaML(1, anchor=0.1, random_state=0))
    pipeline.fit(X, mdaml__triplets=T)
    return pipeline, fold_pipeline(pipeline), X, T


def distances(mapped):
    return np.linalg.norm(mapped[:, None] - mapped[None], axis=2)


def test_distances_are_those_of_the_pipeline(folded):
    pipeline, model, X, T = folded
    expected = distances(pipeline.transform(X))
    np.testing.assert_allclose(distances(model.transform(X)), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        model.pair_distance(X[:9], X[9:18]), expected[range(9), range(9, 18)]
    )
    own = pipeline[-1].score_triplets(pipeline[:-1].transform(X), T)
    assert model.score_triplets(X, T) == pytest.approx(own, abs=0.01)
    assert model.n_features_in_ == 5


def test_whole_pipeline_is_saved(folded, tmp_path):
    _, model, X, _ = folded
    model.save(tmp_path / "m.mdaml")
    again = mdaml.load(tmp_path / "m.mdaml")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.needs("onnx")
def test_whole_pipeline_is_exported_to_onnx(folded):
    import onnxruntime

    _, model, X, _ = folded
    some = X.astype(np.float32)
    some[3] = 0.0
    expected = distances(model.transform(some.astype(np.float64)))
    np.testing.assert_allclose(distances(model.embed(some)), expected, rtol=1e-3, atol=1e-3)
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    (mapped,) = session.run(None, {"X": some})
    np.testing.assert_allclose(distances(mapped), expected, rtol=1e-3, atol=1e-3)


def test_whole_pipeline_is_exported_to_torch(folded):
    import torch

    _, model, X, _ = folded
    some = X.astype(np.float32)
    some[3] = 0.0
    expected = distances(model.transform(some.astype(np.float64)))
    layer = model.to_torch(dtype="float64")
    mapped = layer(torch.tensor(some, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(distances(mapped), expected, rtol=1e-6, atol=1e-9)
    assert not any(weight.requires_grad for weight in layer.parameters())


@pytest.mark.needs("faiss")
def test_whole_pipeline_is_searched_by_faiss(folded):
    _, model, X, _ = folded
    norms = {step["norm"] for step in getattr(model, "front_", [])}
    if norms - {"l2"}:
        with pytest.raises(ValueError, match="by the norm 'l2' only"):
            model.to_faiss(X)
        return
    sq_dists, rows = model.to_faiss(X).search(X.astype(np.float32), 3)
    expected = np.sort(distances(model.transform(X)), axis=1)[:, :3]
    np.testing.assert_allclose(np.sqrt(np.maximum(sq_dists, 0)), expected, rtol=1e-2, atol=1e-2)
    assert np.mean(rows[:, 0] == np.arange(60)) > 0.95


def test_modes_go_back_to_where_the_samples_are(answers):
    X, T = answers
    pipeline = make_pipeline(StandardScaler(), PCA(), MDaML.paper(2, random_state=0))
    pipeline.fit(X, mdaml__triplets=T)
    model = fold_pipeline(pipeline)
    inside = audit(pipeline, X, triplets=T)
    pd.testing.assert_frame_equal(audit(model, X, triplets=T), inside, atol=1e-6)
    away = audit(model, X, triplets=T, training_rows=False)
    expected = audit(pipeline, X, triplets=T, training_rows=False)
    np.testing.assert_allclose(away["self_weight"], expected["self_weight"], atol=1e-6)


def test_pipeline_stays_as_it_is_and_names_are_kept(answers):
    X, T = answers
    frame = pd.DataFrame(X, columns=list("pqrst"))
    pipeline = make_pipeline(StandardScaler(), MDaMLCV(random_state=0))
    pipeline.fit(frame, mdamlcv__triplets=T)
    before = pipeline[-1].components_.copy()
    model = fold_pipeline(pipeline)
    np.testing.assert_array_equal(pipeline[-1].components_, before)
    assert model.feature_names_in_.tolist() == list("pqrst")
    np.testing.assert_array_equal(model.components_, model.best_estimator_.components_)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("qprst")])


def test_what_cannot_be_folded_is_named(answers):
    X, T = answers
    y = np.arange(60) % 2
    with pytest.raises(TypeError, match="QuantileTransformer cannot be folded"):
        fold_pipeline(make_pipeline(QuantileTransformer(n_quantiles=9), LFDA()).fit(X, y))
    with pytest.raises(TypeError, match=r"must be a metric of mdaml.*pass pipeline\[:-1\]"):
        fold_pipeline(make_pipeline(LFDA(), KNeighborsClassifier()).fit(X, y))
    with pytest.raises(TypeError, match="needs a Pipeline"):
        fold_pipeline(LFDA().fit(X, y))
    model = fold_pipeline(make_pipeline(Normalizer(), LFDA()).fit(X, y))
    assert isinstance(model, FoldedMetric)
    for refused in (model.get_mahalanobis_matrix, model.get_metric):
        with pytest.raises(TypeError, match="no Mahalanobis distance of X"):
            refused()
    with pytest.raises(TypeError, match="does not learn"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="as many rows"):
        model.pair_distance(X[:3], X[:4])
    assert model.score_triplets(X, T) > 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"norm": "l3"},
        {"matrix": np.eye(4)},
        {"offset": np.zeros(4)},
        {"matrix": np.full((5, 5), np.nan)},
        {"more": 1},
    ],
)
def test_steps_that_do_not_fit_are_not_saved(answers, tmp_path, wrong):
    X, _ = answers
    pipeline = make_pipeline(StandardScaler(), Normalizer(), LFDA()).fit(X, np.arange(60) % 2)
    model = fold_pipeline(pipeline)
    model.front_[0] |= wrong
    with pytest.raises(ValueError, match="front_ must be steps"):
        model.save(tmp_path / "m.mdaml")


def make_table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "mass": rng.normal(4000, 600, n),
            "island": rng.choice(["Biscoe", "Dream", "Torgersen"], n),
            "wing": rng.normal(190, 7, n),
            "sex": rng.choice(["female", "male"], n),
            "size": rng.choice(["small", "medium", "large"], n),
            "rings": rng.integers(1, 4, n),
            "day": [f"2007-11-{1 + n % 28:02}" for n in range(n)],
        }
    )
    table.loc[[3, 20], "mass"] = np.nan
    table.loc[[5, 8], "wing"] = np.nan
    table.loc[[7, 8], "sex"] = np.nan
    return table


NUMBERS = ["mass", "wing"]
MEDIANS = SimpleImputer(strategy="median")
FREQUENT = SimpleImputer(strategy="most_frequent")
OTHERS = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
SIZES = OrdinalEncoder(
    categories=[["small", "medium", "large"]], handle_unknown="use_encoded_value", unknown_value=-1
)
RARE = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=2, sparse_output=False)
TABLES = {
    "everything": [
        make_column_transformer(
            (make_pipeline(MEDIANS, StandardScaler()), NUMBERS),
            (make_pipeline(FREQUENT, OTHERS), ["island", "sex"]),
            (SIZES, ["size"]),
            (MinMaxScaler(), ["rings"]),
        )
    ],
    "scale, then impute": [
        make_column_transformer(
            (make_pipeline(RobustScaler(), SimpleImputer()), make_column_selector("mass|wing")),
            ("passthrough", ["rings"]),
        ),
        MaxAbsScaler(),
    ],
    "then rotated": [
        make_column_transformer((MEDIANS, NUMBERS), (OTHERS, ["island", "sex"])),
        StandardScaler(),
        PCA(4),
    ],
    "rotated inside": [
        make_column_transformer(
            (make_pipeline(MEDIANS, StandardScaler(), PCA(1)), NUMBERS),
            (make_pipeline(MEDIANS, TruncatedSVD(1, random_state=0)), ["rings", "wing"]),
            (OneHotEncoder(drop="first", handle_unknown="ignore"), ["island"]),
        ).set_params(transformer_weights={"onehotencoder": 0.5})
    ],
    "rare ones together": [
        make_column_transformer((RARE, ["island", "rings"]), (MEDIANS, NUMBERS)),
        StandardScaler(),
    ],
    "side by side": [
        make_union(
            make_column_transformer((make_pipeline(MEDIANS, StandardScaler()), NUMBERS)),
            make_column_transformer((OTHERS, ["island"]), (MEDIANS, ["wing"])),
            make_column_transformer(("passthrough", ["rings"])),
        ).set_params(transformer_weights={"columntransformer-2": 0.5}),
        make_union(PCA(2), "passthrough", "drop"),
    ],
    "unit length": [
        make_column_transformer((MEDIANS, NUMBERS), (OTHERS, ["island"])),
        StandardScaler(),
        Normalizer(),
    ],
}


@pytest.fixture(scope="module", params=TABLES)
def prepared(request):
    table = make_table()
    species = np.where(table["wing"].fillna(190) > 190, "long", "short")
    steps = [clone(step) for step in TABLES[request.param]]
    pipeline = make_pipeline(*steps, GMML()).fit(table, species)
    new = make_table(30, seed=1)
    new.loc[4, "island"] = "Mars"
    new.loc[6, "size"] = "huge"
    return pipeline, fold_pipeline(pipeline), new


@pytest.mark.filterwarnings("ignore:Found unknown categories")  # of the pipeline
def test_pipelines_of_tables_are_folded(prepared, tmp_path):
    pipeline, model, new = prepared
    expected = distances(pipeline.transform(new))
    np.testing.assert_allclose(distances(model.transform(new)), expected, rtol=1e-6, atol=1e-9)
    model.save(tmp_path / "m.mdaml")
    again = mdaml.load(tmp_path / "m.mdaml")
    mixed = new[new.columns[::-1]].assign(more=1)
    np.testing.assert_allclose(distances(again.transform(mixed)), expected, rtol=1e-6, atol=1e-9)
    dists, rows = again.neighbors(new, new[:5], k=3)
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(dists, np.sort(expected[:5], axis=1)[:, :3], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        again.pair_distance(new[:9], new[9:18]), expected[range(9), range(9, 18)], rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore:Found unknown categories")  # of the pipeline
@pytest.mark.needs("onnx")
def test_exports_prepare_the_table_themselves(prepared):
    import onnxruntime
    import torch

    pipeline, model, new = prepared
    expected = distances(pipeline.transform(new))
    exported = model.to_onnx(dtype="float64")
    columns = json.loads({prop.key: prop.value for prop in exported.metadata_props}["columns"])
    given = {"X": new[columns["X"]].to_numpy(np.float64)}
    if "categories" in columns:
        given["categories"] = new[columns["categories"]].fillna("").astype(str).to_numpy(object)
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    (mapped,) = session.run(None, given)
    np.testing.assert_allclose(distances(mapped), expected, rtol=1e-6, atol=1e-9)
    layers = model.to_torch(dtype="float64")
    mapped = layers(layers[0].read(new)).numpy()
    np.testing.assert_allclose(distances(mapped), expected, rtol=1e-6, atol=1e-9)
    assert layers[0].read(new).dtype == torch.float64


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.needs("onnx", "torch")
def test_exports_take_spellings_of_categories_as_the_library_does():
    import onnxruntime

    columns, fills = ("size", "place"), {"size": 2.0, "place": "Graz"}
    places = ("Graz", "Bern", "Bern ", "New  York", "N/A", "St. (P|o)")
    model = Euclidean().fit(np.eye(1 + len(places)))
    known = Preparation(columns, missing="fill", fills=fills, categories={"place": places})
    model.preparation_ = known.to_dict()
    cells = ["Bern", " Bern", "Bern ", "Bern  ", "New  York\t", "New York", "\u3000Graz\xa0"]
    cells += ["", "  ", "N/A", " N/A", "NA ", "null", "St. (P|o)\n", "St. (P", "bern", "Gra\u200bz"]
    table = pd.DataFrame({"size": np.arange(float(len(cells))), "place": cells})
    expected = model.transform(table)
    layers = model.to_torch(dtype="float64")
    np.testing.assert_allclose(layers(layers[0].read(table)).numpy(), expected)

    def run(model):
        exported = model.to_onnx(dtype="float64").SerializeToString()
        given = {"X": table[["size"]].to_numpy(), "categories": table[["place"]].to_numpy(object)}
        return onnxruntime.InferenceSession(exported).run(None, given)[0]

    np.testing.assert_allclose(run(model), expected)
    # Where the library refuses a gap, the others return no number.
    model.preparation_ = Preparation(columns, categories={"place": places}).to_dict()
    gaps = [n for n, cell in enumerate(cells) if cell.strip() in MISSING and cell != "N/A"]
    layers = model.to_torch()
    for mapped in (run(model), layers(layers[0].read(table)).numpy()):
        assert np.flatnonzero(np.isnan(mapped).any(axis=1)).tolist() == gaps
        np.testing.assert_allclose(np.delete(mapped, gaps, 0), np.delete(expected, gaps, 0))


def test_arrays_with_gaps_are_folded_too():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[4, 1] = np.nan
    y = X[:, 0] > 0
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), GMML()).fit(X, y)
    model = fold_pipeline(pipeline)
    np.testing.assert_allclose(distances(model.transform(X)), distances(pipeline.transform(X)))
    with pytest.raises(ValueError, match="3 columns of the fit"):
        model.transform(X[:, :2])


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([QuantileTransformer(n_quantiles=10)], "QuantileTransformer cannot be folded.*These can"),
        ([MinMaxScaler(clip=True)], "MinMaxScaler cannot be folded.*clip=True"),
        ([SimpleImputer(add_indicator=True)], "SimpleImputer cannot be folded.*add_indicator"),
        ([SimpleImputer(missing_values=-9)], "missing_values=-9"),
        ([FunctionTransformer(np.log1p), SimpleImputer()], "a function of your own"),
        (
            [make_column_transformer((StandardScaler(), [0]), (OneHotEncoder(), [0]))],
            "Column 'x0' is used in two ways",
        ),
        ([SimpleImputer(), KBinsDiscretizer(2, encode="ordinal")], "KBinsDiscretizer cannot be"),
        ([make_column_transformer((Normalizer(), [0, 1]))], "Normalizer .*must come after all"),
    ],
)
def test_steps_that_cannot_be_folded_are_named_with_the_reason(steps, words):
    X = np.random.default_rng(0).integers(0, 4, (40, 2)).astype(float)
    pipeline = make_pipeline(*steps, Euclidean()).fit(X)
    with pytest.raises(TypeError, match=words):
        fold_pipeline(pipeline)


def test_unknown_categories_are_named_in_a_warning():
    table = make_table()
    steps = make_column_transformer((OTHERS, ["island"]), ("passthrough", ["rings"]))
    model = fold_pipeline(make_pipeline(steps, Euclidean()).fit(table))
    changed = table.assign(island=["dream ", "Mars", *table["island"][2:78], "Mars", "Mars"])
    words = r"in column 'island': 'Mars' \(3\), 'dream' \(1, perhaps 'Dream'\)\. The model"
    with pytest.warns(UserWarning, match=words):
        model.transform(changed)
    with pytest.warns(UserWarning, match="Found unknown categories") as caught:
        model.embed(pd.concat([changed] * 500))
    assert len(caught) == 1


def test_unknown_categories_are_refused_where_the_encoder_refuses_them():
    table = make_table()[["island", "rings"]]
    model = fold_pipeline(make_pipeline(OneHotEncoder(sparse_output=False), Euclidean()).fit(table))
    with pytest.raises(ValueError, match="'island' holds a category that the model does not know"):
        model.transform(table.assign(island="Mars"))
    with pytest.raises(ValueError, match=r"no column 'island'.*Did you mean 'Island'"):
        model.transform(table.rename(columns={"island": "Island"}))


def test_modes_of_a_table_are_those_of_the_pipeline():
    table = make_table()
    species = np.where(table["wing"].fillna(190) > 190, "long", "short")
    steps = make_column_transformer((make_pipeline(MEDIANS, StandardScaler()), NUMBERS))
    pipeline = make_pipeline(steps, MDaML.paper(2, random_state=0)).fit(table, species)
    model = fold_pipeline(pipeline)
    shift = model.transform(table) - pipeline.transform(table)
    np.testing.assert_allclose(
        model.centers_ @ model.components_.T - shift[0],
        pipeline[-1].centers_ @ pipeline[-1].components_.T,
        atol=1e-8,
    )


@pytest.mark.parametrize("handle", ["ignore", "error"])
def test_gaps_may_be_filled_with_a_category_that_was_never_seen(handle):
    table = make_table()[["island", "rings"]]
    steps = make_column_transformer(
        (
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="none"),
                OneHotEncoder(handle_unknown=handle, sparse_output=False),
            ),
            ["island"],
        ),
        ("passthrough", ["rings"]),
    )
    pipeline = make_pipeline(steps, Euclidean()).fit(table)
    model = fold_pipeline(pipeline)
    holed = table.assign(island=table["island"].where(table.index > 5))
    if handle == "error":
        with pytest.raises(ValueError, match="empty cell in column 'island'"):
            model.transform(holed)
        return
    np.testing.assert_allclose(
        distances(model.transform(holed)), distances(pipeline.transform(holed))
    )


def test_tables_of_other_libraries_are_taken():
    import polars
    import pyarrow

    table = make_table()
    steps = make_column_transformer((MEDIANS, NUMBERS), (make_pipeline(FREQUENT, OTHERS), ["sex"]))
    model = fold_pipeline(make_pipeline(steps, Euclidean()).fit(table))
    wanted = model.transform(table)
    arrow = pyarrow.Table.from_pandas(table)
    for other in (polars.from_arrow(arrow), arrow, table.convert_dtypes()):
        np.testing.assert_allclose(model.transform(other), wanted)
    cells = table[list(model.preparation_["columns"])]
    np.testing.assert_allclose(model.transform(cells.to_numpy(object)), wanted)
    np.testing.assert_allclose(model.transform(model.prepare(table)), wanted)


@pytest.mark.parametrize(
    ("cell", "options", "advice"),
    [
        ("1,5", {}, r"got '0,5' in row 0 \(from 0\)\. Read the file with decimal=','\.$"),
        (
            " ",
            {"decimal": ","},
            r"decimal=','\. If you did, ' ' in row 7 made the column text: pass",
        ),
        (
            "k.A.",
            {"decimal": ","},
            r"'k\.A\.' in row 7 made the column text: pass na_values=\['k\.A\.'\]",
        ),
        (
            "1.234,5",
            {"decimal": ",", "na_values": "x"},
            r"'1\.234,5' in row 7 made the column text",
        ),
        ("5 g", {}, r"got '0,5' in row 0 .*'5 g' in row 7 made"),
    ],
)
def test_decimal_commas_that_pandas_left_are_explained(cell, options, advice, tmp_path):
    numbers = [f"{n},5" for n in range(20)]
    fitted = pd.DataFrame({"a": np.arange(20) + 0.5, "b": np.arange(20)[::-1] % 3})
    pipeline = make_pipeline(SimpleImputer(), GMML()).fit(fitted, np.arange(20) % 2)
    numbers[7] = cell
    rows = "".join(f"{number};{n % 3}\n" for n, number in enumerate(numbers))
    (tmp_path / "t.csv").write_text(f"a;b\n{rows}")
    table = pd.read_csv(tmp_path / "t.csv", sep=";", **options)
    with pytest.raises(ValueError, match=advice):
        fold_pipeline(pipeline).transform(table)


def test_all_columns_that_a_table_lacks_are_named():
    names = [f"size {n}" for n in range(8)]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 8)), columns=names)
    model = fold_pipeline(make_pipeline(SimpleImputer(), GMML()).fit(X, np.arange(30) % 2))
    with pytest.raises(ValueError, match=r"^X has no column 'size 3', which the model needs\."):
        model.transform(X.drop(columns="size 3"))
    with pytest.raises(ValueError, match=r"no columns .size 1., .size 2., .* and 2 more, which"):
        model.transform(X[["size 0"]])


def test_warnings_in_a_pipeline_point_to_the_line_of_the_user(answers):
    X, _ = answers
    pipeline = make_pipeline(SimpleImputer(), GMML())
    with pytest.warns(UserWarning, match="differ in capitals") as caught:
        pipeline.fit(X, np.repeat(["rot", "Rot", "blau"], 20))
    assert [warning.filename for warning in caught] == [__file__]
    table = pd.DataFrame({"x": X[:, 0], "kind": np.repeat(["a", "b"], 30)})
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["kind"]),
        remainder="passthrough",
    )
    model = fold_pipeline(make_pipeline(encode, GMML()).fit(table, np.arange(60) % 2))
    with pytest.warns(UserWarning, match="unknown categories in column 'kind': 'c'") as caught:
        model.transform(table.assign(kind="c"))
    assert [warning.filename for warning in caught] == [__file__]
