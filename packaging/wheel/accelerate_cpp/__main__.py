"""python -m accelerate_cpp: where accelerate.cpp lies, for CMake and others."""
import argparse
import pathlib
import shutil
import sys

from . import __version__, cmake_dir, prefix


def link(folder):
    """Makes `accelerate` another name of `accelerate-cpp`. Python's Accelerate has a command of that name too."""
    if folder is None:
        beside = pathlib.Path(sys.executable).parent / "accelerate-cpp"
        folder = (beside if beside.exists() else pathlib.Path(shutil.which("accelerate-cpp") or beside)).parent
    command, name = folder / "accelerate-cpp", folder / "accelerate"
    if not command.exists():
        sys.exit(f"accelerate_cpp: error: there is no {command}; name the folder of accelerate-cpp: link FOLDER")
    if name.is_symlink() and name.readlink() == pathlib.Path(command.name):
        print(f"{name} is accelerate-cpp already")
    elif name.exists() or name.is_symlink():
        sys.exit(f"accelerate_cpp: error: {name} is another command, which Python's Accelerate may have installed; "
                 "remove it first (pip uninstall accelerate), or go on with accelerate-cpp")
    else:
        try:
            name.symlink_to(command.name)
        except OSError as error:
            sys.exit(f"accelerate_cpp: error: cannot make {name}: {error.strerror}; go on with accelerate-cpp")
        print(f"{name} is accelerate-cpp now")


def main(words):
    parser = argparse.ArgumentParser(prog="python -m accelerate_cpp", description="Says where accelerate.cpp lies."
                                     " The command itself is accelerate-cpp.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--prefix", action="store_true", help="print the folder for CMAKE_PREFIX_PATH")
    parser.add_argument("--cmake-dir", action="store_true", help="print the folder for Accelerate_DIR")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    linking = commands.add_parser("link", help="make `accelerate` a name of `accelerate-cpp`")
    linking.add_argument("folder", nargs="?", type=pathlib.Path,
                         help="where accelerate-cpp lies (default: beside this Python, else where PATH has it)")
    options = parser.parse_args(words)
    if options.prefix:
        print(prefix)
    elif options.cmake_dir:
        print(cmake_dir)
    elif options.command == "link":
        link(options.folder)
    else:
        parser.print_help()


main(sys.argv[1:])
