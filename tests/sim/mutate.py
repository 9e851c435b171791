#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Break lib/core in one place after another and see that a simulator notices.

    mutate.py [--sim NAME] [--jobs N] [--runs N] [--cc CC] SOURCE_ROOT [NAME...]

There are two simulators, of lanes and of links; each has its table of mutations. Each mutation is
applied to a scratch copy, built with the simulator and run, kept seeds first, until a seed fails.
Prints TAP, one test per mutation, with the seed and the step or tick at which it was caught, or the
case that failed. A mutation that survives fails, and so does one whose text is not there
exactly once.
"""

import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

FLAGS = ["-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE"]


class Sim:
    def __init__(self, table, seeds, sources, core, flags, runs):
        self.table, self.seeds, self.sources = table, seeds, sources
        self.core, self.flags, self.runs = core, flags, runs


SIMS = {
    "lane": Sim("mutations.txt", "seeds.txt", lambda name: not name.startswith("link_"),
                ["lane", "lane_rx", "lane_tx", "peer", "replay", "ring"],
                ["-include", "sim/hook.h"], 60000),
    "link": Sim("link_mutations.txt", "link_seeds.txt", lambda name: name.startswith("link_"),
                ["cdc", "cdc_lane", "link_flow", "link_lane", "link_msg", "link_post",
                 "link_send", "link_take", "ring"], [], 40),
}
# Longest time that one mutation may take. Chosen: 20 times what the slowest needs.
RUN_SECONDS = 240


class Mutation:
    def __init__(self, name, what):
        self.name, self.what = name, what
        self.edits = []  # [file, [old lines], [new lines]]


def parse(path):
    mutations, last = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        head = re.match(r"\[([a-z-]+)\] (.+)", line)
        if not line or line.startswith("#"):
            continue
        if head:
            mutations.append(Mutation(*head.groups()))
        elif line.startswith("@ ") and mutations:
            mutations[-1].edits.append([line[2:], [], []])
        elif line[:2] in ("- ", "+ ") and mutations and mutations[-1].edits:
            mutations[-1].edits[-1][1 if line[0] == "-" else 2].append(line[2:])
        else:
            sys.exit(f"{path}:{number}: what is this?")
    return mutations


def mutate(text, old, new):
    """Replace the one place where the words of @old stand, however they are wrapped."""
    pattern = r"\s+".join(re.escape(word) for word in " ".join(old).split())
    places = list(re.finditer(pattern, text))
    if len(places) != 1:
        raise ValueError(f"{len(places)} places hold: {' '.join(old)}")
    new = "\n".join("" if line == "/* gone */" else line for line in new)
    return text[: places[0].start()] + new + text[places[0].end():]


class Builder:
    def __init__(self, root, cc, scratch, sim):
        self.root, self.cc, self.scratch, self.what = root, cc, scratch, sim
        self.sim = [path for path in sorted((root / "tests/sim").glob("*.c"))
                    if sim.sources(path.name)]
        self.plain = scratch / "plain"
        self.plain.mkdir()
        self.compile(self.sources(root), root, self.plain)

    def sources(self, lib_root):
        core = [lib_root / f"lib/core/{name}.c" for name in self.what.core]
        return self.sim + core + [lib_root / "lib/base/prng.c"]

    def compile(self, sources, lib_root, out):
        include = [f"-I{lib_root}/lib", f"-I{self.root}/tests"]
        for source in sources:
            subprocess.run([self.cc, *FLAGS, *self.what.flags, *include, "-c", source, "-o",
                            out / f"{source.stem}.o"],
                           check=True, capture_output=True, text=True)

    def build(self, mutation):
        """The simulator with @mutation in it; unchanged objects are those of the plain build."""
        out = self.scratch / mutation.name
        shutil.copytree(self.root / "lib/core", out / "lib/core")
        shutil.copytree(self.root / "lib/base", out / "lib/base")
        shutil.copytree(self.root / "tests/sim", out / "tests/sim")
        for file, old, new in mutation.edits:
            path = out / file
            path.write_text(mutate(path.read_text(), old, new))
        changed = [out / file for file in {edit[0] for edit in mutation.edits}]
        if any(path.suffix == ".h" for path in changed):
            changed = self.sources(out)
        self.compile(changed, out, out)
        names = [source.stem for source in self.sources(self.root)]
        objects = [out / f"{name}.o" if (out / f"{name}.o").exists() else self.plain / f"{name}.o"
                   for name in names]
        subprocess.run([self.cc, *objects, "-o", out / "sim"], check=True, capture_output=True,
                       text=True)
        return out / "sim"


def examine(builder, mutation, runs):
    """(caught, what to say)"""
    started = time.monotonic()
    try:
        program = builder.build(mutation)
        result = subprocess.run(
            [program, "--seeds", builder.root / "tests/sim" / builder.what.seeds, "--seed", "1",
             "--runs", str(runs)], capture_output=True, text=True, timeout=RUN_SECONDS)
    except ValueError as error:
        return False, str(error)
    except subprocess.CalledProcessError as error:
        return False, f"does not compile: {error.stderr.splitlines()[:1]}"
    except subprocess.TimeoutExpired:
        return False, f"neither caught nor done after {RUN_SECONDS} s"
    finally:
        shutil.rmtree(builder.scratch / mutation.name, ignore_errors=True)
    found = re.search(r"^# (seed \d+ (?:step|tick) \d+: .*|case .*)$", result.stdout, re.M)
    seconds = time.monotonic() - started
    if result.returncode == 0 or not found:
        return False, f"survived {runs} runs ({seconds:.1f} s)"
    return True, f"{found.group(1)} ({seconds:.1f} s)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sim", choices=SIMS, default="lane")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    root = args.root.resolve()
    sim = SIMS[args.sim]
    mutations = parse(root / "tests/sim" / sim.table)
    if args.names:
        mutations = [m for m in mutations if m.name in args.names]
    print(f"1..{len(mutations)}", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="shunt-mutate-") as scratch:
        builder = Builder(root, args.cc, pathlib.Path(scratch), sim)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = pool.map(lambda m: examine(builder, m, args.runs or sim.runs), mutations)
            for number, (mutation, (caught, said)) in enumerate(zip(mutations, results), 1):
                failed += not caught
                print(f"{'ok' if caught else 'not ok'} {number} - {mutation.name} -> {said}")
                print(f"# {mutation.name}: {mutation.what}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
