"""One encoded image to one array of bytes."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from neuronal.core.limits import extras
from neuronal.data.errors import unreadable

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP", ".bmp": "BMP"}
"""What is opened, by the ends of file names. Pillow knows more formats, and starts Ghostscript for one of them."""
_GREY = {"1", "L", "LA"}
# More than a byte per pixel: squeezing it into one would change the picture without saying so.
_DEEP = {"I", "F", "I;16", "I;16L", "I;16B", "I;16N"}


def pillow() -> ModuleType:
    """``PIL.Image``, loaded only when there is an image to read."""
    with extras():
        from PIL import Image
    return Image


def header(file: bytes | Path, where: str) -> tuple[int, int, int]:
    """Channels (1 or 3), height and width, without decoding the pixels."""
    with _opened(file, where) as image:
        return (1 if image.mode in _GREY else 3), image.height, image.width


def decode(file: bytes | Path, where: str, channels: int, side: int | None = None) -> np.ndarray[Any, Any]:
    """Pixels of shape (channels, height, width).

    Args:
        file: The encoded image, or its path.
        where: Names the image in an error.
        channels: 1 for grey, 3 for colour; an image of the other kind is converted.
        side: Scale the shorter side to this and cut the middle square out; as it is if left out.
    """
    with _opened(file, where) as image:
        try:
            image = image.convert("L" if channels == 1 else "RGB")
            if side is not None and image.size != (side, side):
                image = _square(image, side)
            pixels: np.ndarray[Any, Any] = np.asarray(image)
        except Exception as wrong:
            raise unreadable(where, "an image", wrong) from wrong
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _opened(file: bytes | Path, where: str) -> Any:
    library = pillow()
    try:
        image = library.open(BytesIO(file) if isinstance(file, bytes) else file, formats=sorted(set(FORMATS.values())))
    except library.UnidentifiedImageError as wrong:
        raise ValueError(f"{where}: not an image of a format that is read (PNG, JPEG, WebP, BMP).") from wrong
    # What a damaged image raises depends on its format: OSError, SyntaxError, struct.error and others.
    except Exception as wrong:
        raise unreadable(where, "an image", wrong) from wrong
    if image.mode in _DEEP:
        image.close()
        raise ValueError(f"{where}: an image with more than 8 bits per channel (mode {image.mode}). Convert it first.")
    return image


def _square(image: Any, side: int) -> Any:
    scale = side / min(image.size)
    width, height = (max(side, round(length * scale)) for length in image.size)
    left, top = (width - side) // 2, (height - side) // 2
    return image.resize((width, height), resample=pillow().Resampling.BOX).crop((left, top, left + side, top + side))
