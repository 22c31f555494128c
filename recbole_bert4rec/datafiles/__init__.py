"""Reading and checking of data files: atomic .inter files, and the CSV and Parquet logs they are made from."""
