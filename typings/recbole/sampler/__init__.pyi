"""RecBole 1.2.1: the samplers of negatives and candidates."""

from recbole.sampler.sampler import RepeatableSampler as RepeatableSampler
from recbole.sampler.sampler import Sampler as Sampler
