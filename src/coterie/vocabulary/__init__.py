"""The names, types and meanings of columns, declared once for every dataset, mart and listing.

Nothing here imports pyarrow, Spark or the rest of Coterie.
"""
