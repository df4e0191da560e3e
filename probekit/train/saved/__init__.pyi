from .items import Item as Item
from .items import file_items as file_items
from .items import line_items as line_items
from .items import read_items as read_items
from .items import read_sentences as read_sentences
from .predict import predict as predict
