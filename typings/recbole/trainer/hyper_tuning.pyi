"""RecBole 1.2.1: its search of hyper-parameters."""

from collections.abc import Callable
from typing import Any

def exhaustive_search(
    new_ids: list[int], domain: Any, trials: Any, seed: int, nbMaxSucessiveFailures: int = 1000
) -> list[Any]: ...

class HyperTuning:
    best_score: float | None
    best_params: dict[str, Any] | None
    best_test_result: dict[str, Any] | None
    params2result: dict[str, dict[str, Any]]

    def __init__(
        self,
        objective_function: Callable[..., dict[str, Any]],
        space: dict[str, Any] | None = None,
        params_file: str | None = None,
        params_dict: dict[str, Any] | None = None,
        fixed_config_file_list: list[str] | None = None,
        display_file: str | None = None,
        algo: str | Callable[..., Any] = "exhaustive",
        max_evals: int = 100,
        early_stop: int = 10,
    ) -> None: ...
    def export_result(self, output_file: str | None = None) -> None: ...
    def run(self) -> None: ...
