# SPDX-License-Identifier: MIT
"""Comparing two ways to do the same thing on a machine that is never quiet: they are run in turns,
so that both meet the same disturbances, and each round gives one ratio. Told are the median of the
ratios and a bootstrap interval around it; and the same for the first way against itself, which is
the control: what that interval excludes, noise alone does not explain."""
import random
import statistics

RESAMPLES = 4000
SEED = 20240607 # of the order within rounds and of the resampling: the same data gives the same answer


def interval(values):
	"""The 95 % bootstrap interval of the median."""
	rng = random.Random(SEED)
	medians = sorted(statistics.median(rng.choices(values, k=len(values)))
			 for _ in range(RESAMPLES))
	return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def rounds(variants, count, progress=lambda text: None):
	"""Run each of @variants (name → function that returns a dict of figures) once per round, in an
	order that changes from round to round. Returns name → list of dicts, and the first variant
	once more as its control, under the name "control"."""
	rng = random.Random(SEED)
	first = next(iter(variants))
	todo = dict(variants, control=variants[first])
	samples = {name: [] for name in todo}
	for number in range(count):
		names = list(todo)
		rng.shuffle(names)
		for name in names:
			samples[name].append(todo[name]())
		progress(f"round {number + 1} of {count}")
	return samples


def ratio(samples, over, under, key):
	"""The paired ratio of a figure: {"median", "lo", "hi"}."""
	ratios = [a[key] / b[key] for a, b in zip(samples[over], samples[under])]
	low, high = interval(ratios)
	return {"median": statistics.median(ratios), "lo": low, "hi": high}


class Result:
	"""One line of a benchmark: a figure of two variants, their ratio, and perhaps a claim.

	@sense: "lower" if less is better, "higher", or "cost": then the ratio is second / first, and
	small is good; else it says how many times better the second is.
	@control_of: whom the control repeats, if not the first.
	@claim: ("least", x), ("most", x): the median must be so; ("upper", x): the upper end of the
	interval must not be above x, and the control must be narrow enough to tell.
	"""

	CONTROL_WIDTH = 0.05

	def __init__(self, name, samples, key, unit, sense="lower", claim=None, scale=1.0,
		     control_of=None):
		first, second = [n for n in samples if n != "control"][:2]
		over, under = (first, second) if sense == "lower" else (second, first)
		self.name = name
		self.variants = (first, second)
		self.unit = unit
		self.medians = [statistics.median(s[key] for s in samples[n]) * scale
				for n in self.variants]
		self.ratio = ratio(samples, over, under, key)
		self.control = ratio(samples, "control", control_of or first, key)
		self.rounds = len(samples[first])
		self.claim = claim
		self.extra = {}

	def verdict(self):
		if not self.claim:
			return ""
		kind, bound = self.claim
		if kind == "least":
			return "met" if self.ratio["median"] >= bound else "NOT met"
		if kind == "most":
			return "met" if self.ratio["median"] <= bound else "NOT met"
		width = max(self.control["hi"] - 1, 1 - self.control["lo"])
		if width > self.CONTROL_WIDTH:
			return "no conclusion"
		return "met" if self.ratio["hi"] <= bound else "NOT met"

	def json(self):
		return {"name": self.name, "unit": self.unit, "variants": self.variants,
			"medians": self.medians, "ratio": self.ratio, "control": self.control,
			"rounds": self.rounds, "claim": self.claim, "verdict": self.verdict(), **self.extra}


def _figure(value):
	return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def print_table(results):
	"""All results as lines of at most 100 columns or so."""
	if not results:
		return
	names = max(len(r.name) for r in results)
	print(f"{'':{names}}  {'first':>8} {'second':>8} {'unit':8} {'ratio':>6}  {'95 % interval':>15}"
	      f"  {'control':>13}  claim")
	for r in results:
		claim = f"{r.claim[0]} {r.claim[1]}: {r.verdict()}" if r.claim else ""
		print(f"{r.name:{names}}  {_figure(r.medians[0]):>8} {_figure(r.medians[1]):>8} {r.unit:8} "
		      f"{_figure(r.ratio['median']):>6}  {_figure(r.ratio['lo']):>6} - {_figure(r.ratio['hi']):>6}"
		      f"  {r.control['lo']:5.3f}-{r.control['hi']:5.3f}  {claim}")
	for first, second in dict.fromkeys(r.variants for r in results):
		print(f"first: {first}, second: {second}")
