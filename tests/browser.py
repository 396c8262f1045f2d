"""A real browser for tests: what it makes of a page, and what the page looks like."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from pathlib import Path


def dump(url: str, folder: Path, width: int = 1280) -> str:
    """Return the document as the browser has it after loading, as HTML."""
    return _run(url, folder, f"--window-size={width},900", "--dump-dom")


def background(url: str, folder: Path, *, dark: bool) -> tuple[int, int, int]:
    """Return the colour of the first pixel of a page, for a reader who prefers light or dark."""
    picture = folder / "picture.png"
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    _run(url, folder, "--window-size=500,400", scheme, f"--screenshot={picture}")
    return _first_pixel(picture.read_bytes())


def _run(url: str, folder: Path, *options: str) -> str:
    program = shutil.which("chromium")
    assert program is not None, "chromium is not installed: tests/install_chromium does it, as root on Debian"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}"]
    done = subprocess.run([program, *flags, *options, url], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _first_pixel(png: bytes) -> tuple[int, int, int]:
    """Decode the first pixel of a PNG of RGB bytes: no filter changes it."""
    place, packed = 8, b""
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        content = png[place + 8 : place + 8 + length]
        assert kind != b"IHDR" or content[8:10] in (b"\x08\x02", b"\x08\x06"), "a picture of other pixels"
        packed += content if kind == b"IDAT" else b""
        place += 12 + length
    red, green, blue = zlib.decompress(packed)[1:4]
    return red, green, blue
