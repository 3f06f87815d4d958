// Being written by another helper; see NOTE.txt.
