"""RecBole 1.2.1: the configuration."""

from recbole.config.configurator import Config as Config
