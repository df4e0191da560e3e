from .pulling import Pull as Pull
from .pushing import Push as Push
from .withheld_text import TextSource as TextSource
