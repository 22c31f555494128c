"""RecBole 1.2.1: whole runs; second references to the functions of its module."""

from recbole.quick_start.quick_start import load_data_and_model as load_data_and_model
from recbole.quick_start.quick_start import objective_function as objective_function
from recbole.quick_start.quick_start import run as run
from recbole.quick_start.quick_start import run_recbole as run_recbole
from recbole.quick_start.quick_start import run_recboles as run_recboles
