"""The contract of a store, run on every backend (see test_zarr.py and test_hdf5.py)."""

from tests.store.contract_damage import DamageContract
from tests.store.contract_reading import ReadingContract
from tests.store.contract_refusals import RefusalContract
from tests.store.contract_writing import WritingContract


class StoreContract(ReadingContract, DamageContract, WritingContract, RefusalContract):
    """Subclasses name the backend and say how to damage what it wrote (see `Backed`)."""
