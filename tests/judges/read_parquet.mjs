// Prints the rows of a Parquet file as hyparquet reads them, as JSON: node read_parquet.mjs FILE
import { asyncBufferFromFile, parquetReadObjects, toJson } from "hyparquet";
import { compressors } from "hyparquet-compressors";

const file = await asyncBufferFromFile(process.argv[2]);
console.log(JSON.stringify(toJson(await parquetReadObjects({ file, compressors }))));
