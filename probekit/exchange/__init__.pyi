from .dataset_card import TextSource as TextSource
from .pulling import Pull as Pull
from .pushing import Push as Push
