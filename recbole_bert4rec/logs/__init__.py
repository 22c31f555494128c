"""Reading and checking of data files: atomic .inter files, and the logs of one's own that they are made from."""
