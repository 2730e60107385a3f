"""What the rounds of a case say together.

A figure is the median of those of the rounds. A ratio is the median of the rounds' ratios, each of two figures that were
measured one right after the other, so that what the machine does to both of them cancels out. What was measured once is its
only round.
"""
import statistics


def of(run):
    return run.get("rounds", [run])


def middle(run, figure):
    return statistics.median(map(figure, of(run)))


def ratios(figure, ours, theirs):
    """A ratio for each round that both have."""
    both = [(figure(our), figure(their)) for our, their in zip(of(ours), of(theirs))]
    return [our / their for our, their in both if their]
