"""RecBole 1.2.1: kinds of models, losses, columns and files."""

from enum import Enum

class ModelType(Enum):
    GENERAL = 1
    SEQUENTIAL = 2
    CONTEXT = 3
    KNOWLEDGE = 4
    TRADITIONAL = 5
    DECISIONTREE = 6

class EvaluatorType(Enum):
    RANKING = 1
    VALUE = 2

class InputType(Enum):
    POINTWISE = 1
    PAIRWISE = 2
    LISTWISE = 3

class FeatureType(Enum):
    TOKEN = "token"
    FLOAT = "float"
    TOKEN_SEQ = "token_seq"
    FLOAT_SEQ = "float_seq"

class FeatureSource(Enum):
    INTERACTION = "inter"
    USER = "user"
    ITEM = "item"
    USER_ID = "user_id"
    ITEM_ID = "item_id"
    KG = "kg"
    NET = "net"
