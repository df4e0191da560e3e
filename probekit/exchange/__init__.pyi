from .pulling import Pull as Pull
from .pulling import TextSource as TextSource
from .pushing import Push as Push
