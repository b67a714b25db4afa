"""The output of `--json`: the library's answers as plain data, one function `document` per command."""
