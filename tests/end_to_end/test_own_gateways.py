"""Tests that are skipped on three gateways use none of them; all others run there."""

from __future__ import annotations

import ast

import pytest

from end_to_end.conftest import HERE, OWN_GATEWAYS


def shared_stacks(source: str) -> list[int]:
    """Return the lines of a module at which it has a stack that becomes three gateways."""
    tree = ast.parse(source)
    imported = {alias.asname or alias.name for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module == "proof.processes.stack"
                for alias in node.names}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    found = list[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported & {"Stack"} \
                and not any(one.arg == "on_file" for one in node.keywords):
            found.append(node.lineno)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_") \
                and "stack" not in own and any(one.arg == "stack" for one in node.args.args):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("name", sorted(OWN_GATEWAYS))
def test_a_module_that_is_left_out_shares_no_gateway_with_others(name: str) -> None:
    assert shared_stacks((HERE / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", ["test_shell.py", "test_telegram.py", "test_severed_link.py"])
def test_a_stack_of_three_gateways_is_found(name: str) -> None:
    assert shared_stacks((HERE / name).read_text(encoding="utf-8"))
