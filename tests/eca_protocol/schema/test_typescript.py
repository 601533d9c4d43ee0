"""The TypeScript: its text, and its compilation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from eca_protocol.revisions import Revision
from eca_protocol.schema import json_schema, typescript
from tests.node import node, node_modules

OPTIONS = {
    "exactOptionalPropertyTypes": True,
    "module": "es2022",
    "moduleResolution": "bundler",
    "noEmit": True,
    "strict": True,
    "target": "es2022",
    "types": [],
}
SAMPLE = Path(__file__).with_name("sample.ts")

EXCERPTS = [
    """
/** A root of the user's project, as a URI, and the name shown for it. */
export interface WorkspaceFolder {
  uri: string;
  name: string;
}
""",
    """
export interface InitializationOptions {
  chatBehavior?: "agent" | "plan";
  /** W-12: written although the edition's text does not have it. */
  protocolRevision?: string;
  [key: string]: unknown;
}
""",
    """
export interface InitializedParams {}
""",
    """
export type ToolServerUpdatedParams =
  | EcaServerUpdatedParams
  | MCPServerUpdatedParams;
""",
    """
  "shutdown": {
    kind: "request";
    direction: "client_to_server";
    result: null;
  };
""",
]


def test_it_has_a_type_for_each_definition_and_a_row_for_each_method() -> None:
    text = typescript(Revision.R2025_10)
    for excerpt in EXCERPTS:
        assert excerpt in text
    schema = json_schema(Revision.R2025_10)
    for name in schema["$defs"]:
        is_method = name in schema["x-methods"]
        assert (f'\n  "{name}": {{\n' in text) is is_method
        assert (f" {name} {{" in text or f" {name} =\n" in text) is not is_method


@pytest.mark.long
def test_the_compiler_takes_it_and_refuses_what_the_protocol_does(tmp_path: Path) -> None:
    for revision in Revision:
        (tmp_path / f"{revision.value}.ts").write_text(typescript(revision), "utf-8")
    (tmp_path / "eca.ts").write_text(typescript(Revision.R2025_10), "utf-8")
    (tmp_path / "sample.ts").write_text(SAMPLE.read_text("utf-8"), "utf-8")
    settings = {"compilerOptions": OPTIONS, "include": ["*.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings), "utf-8")
    compiler = node_modules() / "typescript" / "lib" / "tsc.js"
    done = subprocess.run(
        [node(), str(compiler), "-p", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
