// Reads arrays of a Zarr group with zarrita: node read_zarr.mjs STORE FOLDER NAME...
// Values go to FOLDER/NAME as raw bytes; what else is known of each array goes to stdout as JSON.
import { writeFileSync } from "node:fs";
import FileSystemStore from "@zarrita/storage/fs";
import * as zarr from "zarrita";

globalThis.Float16Array ??= class extends Uint16Array {}; // node has one from 24 on; bits will do
const [store, folder, ...names] = process.argv.slice(2);
const group = await zarr.open.v3(new FileSystemStore(store), { kind: "group" });
const known = {};
for (const name of names) {
  const array = await zarr.open.v3(group.resolve(name), { kind: "array" });
  writeFileSync(`${folder}/${name}`, (await zarr.get(array)).data);
  const { shape, dtype, dimensionNames: dims, attrs } = array;
  known[name] = { shape, dtype, dims, layers: attrs.layers };
}
console.log(JSON.stringify(known));
