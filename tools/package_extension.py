"""Package the extension of VS Code: one .vsix file, whose bytes depend on the sources alone.

    python tools/package_extension.py [-o retrograd.vsix]
    code --install-extension retrograd.vsix

The grammar is written anew first. Versions of the extension and of the package are the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from retrograd.isa.files import replacing

from retrograd.observe import lexers
from retrograd.version import __version__

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = ROOT / "editors" / "vscode"
#: the time of every member; a zip file has none before 1980
_TIME = (1980, 1, 1, 0, 0, 0)
_TYPES = {
    ".json": "application/json",
    ".js": "application/javascript",
    ".md": "text/markdown",
    ".vsixmanifest": "text/xml",
    ".txt": "text/plain",
}


def manifest_of(package: dict[str, Any]) -> str:
    """The manifest of the file, from that of the extension."""
    properties = {
        "Microsoft.VisualStudio.Code.Engine": package["engines"]["vscode"],
        "Microsoft.VisualStudio.Code.ExtensionKind": "workspace",
    }
    rows = "\n".join(
        f"      <Property Id={quoteattr(name)} Value={quoteattr(value)} />" for name, value in properties.items()
    )
    assets = {
        "Microsoft.VisualStudio.Code.Manifest": "extension/package.json",
        "Microsoft.VisualStudio.Services.Content.Details": "extension/README.md",
        "Microsoft.VisualStudio.Services.Content.License": "extension/LICENSE.txt",
    }
    listed = "\n".join(
        f'    <Asset Type={quoteattr(kind)} Path={quoteattr(path)} Addressable="true" />'
        for kind, path in assets.items()
    )
    identity = " ".join(
        f"{name}={quoteattr(value)}"
        for name, value in {
            "Language": "en-US",
            "Id": package["name"],
            "Version": package["version"],
            "Publisher": package["publisher"],
        }.items()
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity {identity} />
    <DisplayName>{escape(package["displayName"])}</DisplayName>
    <Description xml:space="preserve">{escape(package["description"])}</Description>
    <Tags>{escape(",".join(package["keywords"]))}</Tags>
    <Categories>{escape(",".join(package["categories"]))}</Categories>
    <Properties>
{rows}
    </Properties>
    <License>extension/LICENSE.txt</License>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code" />
  </Installation>
  <Dependencies />
  <Assets>
{listed}
  </Assets>
</PackageManifest>
"""


def members() -> dict[str, bytes]:
    """Name -> contents of the members of the file, in their order."""
    package = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    found = {
        path.relative_to(EXTENSION).as_posix(): path.read_bytes()
        for path in sorted(EXTENSION.rglob("*"))
        if path.is_file()
    }
    found["LICENSE.txt"] = (ROOT / "LICENSE").read_bytes()
    suffixes = sorted({Path(name).suffix for name in found} | {".vsixmanifest"})
    types = "".join(f'<Default Extension="{suffix}" ContentType="{_TYPES[suffix]}"/>' for suffix in suffixes)
    content = f'<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{types}</Types>\n'
    return {
        "extension.vsixmanifest": manifest_of(package).encode(),
        "[Content_Types].xml": content.encode(),
        **{f"extension/{name}": found[name] for name in sorted(found)},
    }


def package(path: Path) -> None:
    """Write the .vsix file."""
    with replacing(path) as sink, zipfile.ZipFile(sink, "w") as file:
        for name, contents in members().items():
            member = zipfile.ZipInfo(name, _TIME)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            file.writestr(member, contents)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the grammar and the package; returns the exit code."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    p.add_argument("-o", dest="output", type=Path, default=Path(f"retrograd-{__version__}.vsix"))
    options = p.parse_args(arguments)
    lexers.main([str(EXTENSION / "syntaxes")])
    package(options.output)
    print(f"{options.output}: {options.output.stat().st_size // 1024} KiB; code --install-extension {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
