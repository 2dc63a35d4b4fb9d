"""What a fitted adapter does: map vectors, and pass to an index, a file or another library."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import ArrayLike, FloatArray
from mdaml.io import encoders, export
from mdaml.io.model_file import write_model
from mdaml.retrieval._gain import summarise
from mdaml.retrieval._scores import scale_rows

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from llama_index.core.embeddings import BaseEmbedding


class AdapterHandover:
    """Of an adapter with ``components_``."""

    components_: FloatArray

    def summary(self: Any) -> str:
        """Return what was learned, and the score of held-out queries before and after.

        Returns
        -------
        text : str
            Two lines, with the 95 % interval of the change.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> print(model.summary())
        Map of queries, strength 1.
        Not tested on held-out queries: anchor was given as a number.
        """
        check_is_fitted(self, "components_")
        text: str = summarise(
            self.strength_,
            self.improved_,
            self.held_out_,
            has_map=not np.array_equal(self.components_, np.eye(len(self.components_))),
        )
        return text

    @property
    def search_similarity(self: Any) -> str:
        """How to rank mapped vectors: by ``similarity``; by distance if "cosine" and symmetric.

        Examples
        --------
        >>> from mdaml.retrieval import QueryAdapter
        >>> QueryAdapter().search_similarity, QueryAdapter(symmetric=True).search_similarity
        ('cosine', 'euclidean')
        """
        return "euclidean" if self.symmetric and self.similarity == "cosine" else self.similarity

    def transform_queries(self: Any, queries: ArrayLike) -> FloatArray:
        """Return mapped queries, to search with.

        Parameters
        ----------
        queries : array-like of shape (n_queries, n_features) or (n_features,)
            Vectors of queries, or one.

        Returns
        -------
        mapped : array of shape (n_queries, n_features) or (n_features,)
            In the precision of the queries; of length one with ``similarity="cosine"``, unless
            ``symmetric``.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> model.transform_queries(documents[:5]).shape
        (5, 4)
        >>> model.transform_queries(documents[0]).shape
        (4,)
        """
        if np.ndim(queries) == 1:
            return self.transform_queries(np.asarray(queries)[None])[0]
        Q = self._check(queries, "queries")
        if self.similarity == "cosine":
            Q = scale_rows(Q)
        mapped = Q @ self.components_.T.astype(Q.dtype)
        return scale_rows(mapped) if self.search_similarity == "cosine" else mapped

    def transform_documents(self: Any, documents: ArrayLike) -> FloatArray:
        """Return documents as an index stores them: scaled for "cosine", mapped if ``symmetric``.

        Parameters
        ----------
        documents : array-like of shape (n_documents, n_features)
            Vectors of documents.

        Returns
        -------
        stored : array of shape (n_documents, n_features)
            With ``similarity="cosine"`` of length one; with ``symmetric`` mapped.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(similarity="dot", anchor=1.0)
        >>> model = model.fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> bool((model.transform_documents(documents) == documents).all())
        True
        """
        X = self._check(documents, "documents")
        if self.similarity == "cosine":
            X = scale_rows(X)
        return X @ self.components_.T.astype(X.dtype) if self.symmetric else X

    def _check(self: Any, A: ArrayLike, name: str) -> FloatArray:
        check_is_fitted(self, "components_")
        checked: FloatArray = check_array(A, dtype=[np.float64, np.float32], input_name=name)
        if checked.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} have {checked.shape[1]} features, but the map was fitted to "
                f"{self.n_features_in_}."
            )
        return checked

    def to_inner_product(
        self: Any, queries: ArrayLike | None = None, documents: ArrayLike | None = None
    ) -> tuple[FloatArray | None, FloatArray | None]:
        """Return vectors for an index that ranks by inner product, for any similarity.

        If a distance ranks, ``d^2 = q'Mq - 2 q'Mx + x'Mx``, a query becomes ``[Mq, -1]`` and a
        document ``[x, x'Mx / 2]``: stored vectors only get one more number each. Without
        ``symmetric`` M is W for the queries and the identity for the documents. Vectors far from
        the origin lose digits here, as in any inner-product index: pass them in double precision.

        Parameters
        ----------
        queries : array-like of shape (n_queries, n_features) or None
            Vectors of queries.
        documents : array-like of shape (n_documents, n_features) or None
            Vectors of documents.

        Returns
        -------
        queries, documents : array or None
            Of n_features columns, or one more where distances rank.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(symmetric=True, anchor=1.0)
        >>> model = model.fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> q, x = model.to_inner_product(documents[:5], documents)
        >>> q.shape, x.shape
        ((5, 5), (30, 5))
        """
        ranked_by_distance = self.search_similarity == "euclidean"
        asked = stored = None
        if queries is not None:
            asked = self.transform_queries(queries)
            if self.symmetric:
                asked = asked @ self.components_.astype(asked.dtype)
            if ranked_by_distance:
                asked = np.column_stack([asked, np.full(len(asked), -1, asked.dtype)])
        if documents is not None:
            mapped = self.transform_documents(documents)
            stored = self._check(documents, "documents")
            stored = scale_rows(stored) if self.similarity == "cosine" else stored
            if ranked_by_distance:
                stored = np.column_stack([stored, 0.5 * np.einsum("ij,ij->i", mapped, mapped)])
        return asked, stored

    def to_langchain(self: Any, embeddings: "Embeddings") -> "Embeddings":
        """Return embeddings of LangChain whose queries are mapped.

        Parameters
        ----------
        embeddings : langchain_core.embeddings.Embeddings
            The encoder that made the vectors of the fit.

        Returns
        -------
        adapted : langchain_core.embeddings.Embeddings
            For any vector store; documents are embedded as by :meth:`transform_documents`, so
            those that are stored stay valid unless ``symmetric``.

        Examples
        --------
        >>> import numpy as np
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from mdaml.retrieval import QueryAdapter
        >>> encoder = DeterministicFakeEmbedding(size=4)
        >>> documents = np.array(encoder.embed_documents(["card", "loan", "fees"]))
        >>> adapter = QueryAdapter(anchor=1.0).fit(documents, documents, [[0, 1], [1, 2]])
        >>> len(adapter.to_langchain(encoder).embed_query("card"))
        4
        """
        from mdaml.retrieval._embedders import wrap_langchain

        check_is_fitted(self, "components_")
        return wrap_langchain(embeddings, self.transform_queries, self.transform_documents)

    def to_llama_index(self: Any, embed_model: "BaseEmbedding") -> "BaseEmbedding":
        """Return an embedding model of LlamaIndex whose queries are mapped.

        Parameters
        ----------
        embed_model : llama_index.core.embeddings.BaseEmbedding
            The encoder that made the vectors of the fit.

        Returns
        -------
        adapted : llama_index.core.embeddings.BaseEmbedding
            For ``Settings.embed_model`` or an index; documents as by :meth:`to_langchain`.

        Examples
        --------
        >>> import numpy as np
        >>> from llama_index.core import MockEmbedding
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> adapter = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> len(adapter.to_llama_index(MockEmbedding(embed_dim=4)).get_query_embedding("card"))
        4
        """
        from mdaml.retrieval._embedders import wrap_llama_index

        check_is_fitted(self, "components_")
        return wrap_llama_index(embed_model, self.transform_queries, self.transform_documents)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted adapter to a file, which :func:`mdaml.load` reads.

        Parameters
        ----------
        path : str or path
            The file; ``.mdaml`` is usual, no suffix is added.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import mdaml
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(Path(folder, "faq.mdaml"))
        ...     mdaml.load(Path(folder, "faq.mdaml"))
        QueryAdapter(anchor=1.0)
        """
        write_model(path, self)

    def to_onnx(
        self, path: str | os.PathLike[str] | None = None, *, dtype: object = "float32"
    ) -> Any:
        """Return the map as an ONNX model, ``X`` to ``embedding``; see the metrics' ``to_onnx``.

        The length of a mapped query is not made one; it does not change a ranking.

        Parameters
        ----------
        path : str or path or None
            A file to write as well.
        dtype : {"float32", "float64"} or dtype, default="float32"
            Of input and output.

        Returns
        -------
        model : onnx.ModelProto
            Its input is ``X`` of shape (any, n_features), its output ``embedding``.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> [node.op_type for node in model.to_onnx().graph.node]
        ['MatMul']
        """
        check_is_fitted(self, "components_")
        return export.make_onnx_model(self.components_, path, dtype=dtype)

    def to_torch(self, *, dtype: object = "float32") -> Any:
        """Return the map as a ``torch.nn.Linear`` without bias, frozen.

        Parameters
        ----------
        dtype : {"float32", "float64"} or dtype of NumPy or torch, default="float32"
            Of the weight.

        Returns
        -------
        layer : torch.nn.Linear
            With the matrix of the adapter as its weight.

        Examples
        --------
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> model.to_torch()
        Linear(in_features=4, out_features=4, bias=False)
        """
        check_is_fitted(self, "components_")
        return export.make_torch_layer(self.components_, dtype=dtype)

    def to_safetensors(self, path: str | os.PathLike[str]) -> None:
        """Write the map as the tensor ``linear.weight`` of a safetensors file.

        Parameters
        ----------
        path : str or path
            The file, replaced only once the new one is complete.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.to_safetensors(Path(folder, "faq.safetensors"))
        ...     b"linear.weight" in Path(folder, "faq.safetensors").read_bytes()
        True
        """
        check_is_fitted(self, "components_")
        encoders.write_safetensors(path, {"linear.weight": self.components_})

    def to_sentence_transformers(self, folder: str | os.PathLike[str]) -> None:
        """Write the map as a folder that ``sentence_transformers.models.Dense.load`` reads.

        Append it to the modules that encode queries; documents keep theirs.

        Parameters
        ----------
        folder : str or path
            Created if it does not exist.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from mdaml.retrieval import QueryAdapter
        >>> documents = np.random.default_rng(0).normal(size=(30, 4))
        >>> model = QueryAdapter(anchor=1.0).fit(documents[:5], documents, [[0, 1], [1, 2]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.to_sentence_transformers(Path(folder, "2_Dense"))
        ...     sorted(path.name for path in Path(folder, "2_Dense").iterdir())
        ['config.json', 'model.safetensors']
        """
        check_is_fitted(self, "components_")
        encoders.write_dense_module(folder, self.components_)
