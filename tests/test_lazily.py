"""What takes seconds to import is imported by the worker whose tests use it: since every worker reads every test
file."""


def test_importing_test_files_loads_no_large_library(loaded_with_files: set[str]) -> None:
    assert loaded_with_files == set(), "import it with `lazily`, in a file that conftest.LARGE_IMPORTS names"
