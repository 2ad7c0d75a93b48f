"""What the runtime costs, beside a floor: the least work with the same guarantee, written by hand, in the same run."""
