"""Claude's memory tool: the `input` of a `tool_use` block goes in, its `tool_result` comes out.

What a model got wrong is answered to the model: 200, with `is_error`.
"""

import dataclasses
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, WithJsonSchema

from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs
from app.memory import files
from app.memory.file_text import (
    Command,
    Create,
    Delete,
    Insert,
    Refused,
    Rename,
    StrReplace,
    View,
)
from app.text import without_surrogates
from app.wire import Model, UserId

_COMMANDS: Final[dict[str, type[Command]]] = {
    "view": View,
    "create": Create,
    "str_replace": StrReplace,
    "insert": Insert,
    "delete": Delete,
    "rename": Rename,
}

_Text = Annotated[Any, WithJsonSchema({"description": "A string."})]
_Number = Annotated[Any, WithJsonSchema({"description": "A whole number."})]
_Range = Annotated[Any, WithJsonSchema({"description": "Two whole numbers."})]

router = APIRouter(prefix="/v1/users/{user:id}", route_class=KeyedRoute, tags=["memory tool"])


class ToolInputIn(Model):
    """The `input` of a `tool_use` block of the tool `memory_20250818`, as it came.

    What is missing or of another type is the model's mistake, and told to the model.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"command": "view", "path": "/memories"}]}
    )

    command: Annotated[Any, _Text] = None
    path: _Text = None
    view_range: _Range = None
    file_text: _Text = None
    old_str: _Text = None
    new_str: _Text = None
    insert_line: _Number = None
    insert_text: _Text = None
    old_path: _Text = None
    new_path: _Text = None


class ToolResultOut(Model):
    """The fields of a `tool_result` block."""

    content: str
    is_error: bool


@router.post("/memory-tool", dependencies=[Depends(Needs("facts"))])
async def use_memory_tool(
    user: UserId, body: ToolInputIn, core: CoreDep, key: CredentialDep
) -> ToolResultOut:
    """Carry out one command of Claude's memory tool on the user's files."""
    try:
        content = await files.run(core, key.tenant_id, user, _command(body.model_dump()))
    except Refused as refused:
        return ToolResultOut(content=without_surrogates(refused.text), is_error=True)
    return ToolResultOut(content=content, is_error=False)


def _command(given: dict[str, Any]) -> Command:
    """Read a command; an argument of another one is passed over, as the SDK does."""
    name = given.get("command")
    kind = _COMMANDS.get(name) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(f"`{command}`" for command in _COMMANDS)
        said = name if isinstance(name, str) else "none"
        raise Refused(f"Unknown command: {said}. The commands are {known}.")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        value = given.get(field.name)
        if value is not None:
            values[field.name] = _argument(field, value)
        elif field.default is dataclasses.MISSING:
            raise Refused(f"The command `{name}` needs the argument `{field.name}`.")
    return kind(**values)


def _argument(field: "dataclasses.Field[Any]", value: Any) -> Any:
    if field.type is int:
        return _number(field.name, value)
    if field.type is not str:
        if not isinstance(value, list):
            raise Refused(f"The argument `{field.name}` must be a list of two whole numbers.")
        return [_number(field.name, item) for item in value]
    if not isinstance(value, str):
        raise Refused(f"The argument `{field.name}` must be a string.")
    return value


def _number(name: str, value: Any) -> int:
    """Read a whole number; models write one as a string now and then."""
    if not isinstance(value, bool) and isinstance(value, int | str):
        with suppress(ValueError):
            return int(value)
    raise Refused(f"The argument `{name}` takes whole numbers.")
