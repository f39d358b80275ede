"""The system user that the embedded Postgres runs as under root, and the little it may do.

Postgres refuses root. Its user must reach the data directory and the wheel's programs even below
a closed folder such as /root, so this one user is let through by an access list; no folder is
opened to everyone. Failures are `OSError`s with a text for a person.
"""

import contextlib
import errno
import os
import pwd
import stat
import struct
import subprocess
from pathlib import Path

_NAME = "usermem"
_ACL = "system.posix_acl_access"
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_SEARCH = 1


def system_account() -> tuple[int, int]:
    """Give the numbers of the user and its group; make them at the first need."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_NAME)[2:4]
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _NAME]
    try:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - fixed words
        return pwd.getpwnam(_NAME)[2:4]
    except (OSError, subprocess.CalledProcessError, KeyError) as error:
        why = f"Postgres may not run as root and no system user {_NAME} can be made"
        raise PermissionError(f"{why}: create it, or run as an ordinary user") from error


def open_to_all(tree: Path) -> None:
    """Let everyone read and run a package's own files, which a umask of 077 closes to others."""
    if tree.stat().st_mode & stat.S_IROTH:
        return
    for folder, _, names in os.walk(tree, topdown=False):  # `tree` last: open means all is done
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))


def let_through(uid: int, path: Path) -> None:
    """Let this one user pass the folders above `path` that not everyone may, and nobody else."""
    for folder in reversed(path.parents):
        acl = _read_acl(folder)
        # The mask is about to widen; what it held back from others must stay held back.
        mask = acl.get((_MASK, _NO_ID), acl[_GROUP, _NO_ID])
        for tag, who in acl:
            if tag in {_USER, _GROUP, _NAMED_GROUP}:
                acl[tag, who] &= mask
        if folder.stat().st_uid == uid or acl.get((_USER, uid), acl[_OTHER, _NO_ID]) & _SEARCH:
            continue
        acl[_USER, uid] = acl.get((_USER, uid), 0) | _SEARCH
        acl[_MASK, _NO_ID] = mask | _SEARCH
        entries = [struct.pack("<HHI", tag, acl[tag, who], who) for tag, who in sorted(acl)]
        try:
            os.setxattr(folder, _ACL, struct.pack("<I", 2) + b"".join(entries))
        except OSError as error:
            why = f"Postgres may not run as root and {_NAME} can't be let through {folder}"
            raise PermissionError(f"{why}: {error.strerror}") from error


def _read_acl(folder: Path) -> dict[tuple[int, int], int]:
    """Permission bits by (tag, id), as the kernel keeps them."""
    try:
        raw = os.getxattr(folder, _ACL)
    except OSError as error:
        if error.errno not in {errno.ENODATA, errno.ENOTSUP}:
            raise
        mode = folder.stat().st_mode
        bits = {_OWNER: mode >> 6 & 7, _GROUP: mode >> 3 & 7, _OTHER: mode & 7}
        return {(tag, _NO_ID): value for tag, value in bits.items()}
    return {(tag, who): bits for tag, bits, who in struct.iter_unpack("<HHI", raw[4:])}
