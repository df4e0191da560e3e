// Reads data sets of an HDF5 file with h5wasm: node read_hdf5.mjs FILE FOLDER NAME...
// Values go to FOLDER/NAME as raw bytes; what else is known of each data set goes to stdout as JSON.
import { writeFileSync } from "node:fs";
import h5wasm from "h5wasm/node";

await h5wasm.ready;
const [path, folder, ...names] = process.argv.slice(2);
const file = new h5wasm.File(path, "r");
const known = {};
for (const name of names) {
  const array = file.get(name);
  const { shape, dtype, metadata } = array;
  if (dtype === "<e") array._metadata = { ...metadata, type: 0 }; // its bits, as whole numbers
  writeFileSync(`${folder}/${name}`, array.value);
  const dims = shape.map((_, axis) => array.get_attached_scales(axis)[0].slice(1));
  known[name] = { shape, dtype, dims, layers: [...array.attrs.layers.value].map(Number) };
}
console.log(JSON.stringify(known));
