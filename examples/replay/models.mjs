// A repository with two versions of the sample silero_vad, of which the second has one weight changed:
//   node examples/replay/models.mjs [FOLDER]
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const CACHE = fileURLToPath(new URL('../../.cache', import.meta.url));
const SAMPLE = join(CACHE, 'samples', 'silero_vad');
const DEFAULT_FOLDER = join(CACHE, 'replay');
/** One of the 128 weights of the layer that makes a probability of what the model has heard. */
const WEIGHTS = 'model.decoder.decoder.2.weight';
const INDEX = 22;
const FACTOR = 1.5;

// What stands before the weights in the file: the tensor's name and the size of its data (onnx.proto, fields 8 and 9).
const NAME_FIELD = 0x42;
const DATA_FIELD = 0x4a;
const DATA_BYTES = [0x80, 0x04]; // 512 as a varint

const [folder = DEFAULT_FOLDER] = process.argv.slice(2);
if (!existsSync(SAMPLE)) throw new Error('there is no sample silero_vad yet: npm run setup fetches it');

const model = join(folder, 'silero_vad');
cpSync(SAMPLE, model, { recursive: true });
// Without this a server loads the highest version alone.
const config = readFileSync(join(SAMPLE, 'config.pbtxt'), 'utf8');
writeFileSync(join(model, 'config.pbtxt'), `${config}version_policy { all { } }\n`);

const bytes = readFileSync(join(SAMPLE, '1', 'model.onnx'));
const name = Buffer.from(WEIGHTS);
const head = Buffer.concat([Buffer.of(NAME_FIELD, name.length), name, Buffer.of(DATA_FIELD, ...DATA_BYTES)]);
const found = bytes.indexOf(head);
if (found < 0) throw new Error(`${SAMPLE}: its graph has no tensor ${WEIGHTS} of 128 weights`);
const at = found + head.length + 4 * INDEX;
const weight = bytes.readFloatLE(at);
bytes.writeFloatLE(weight * FACTOR, at);
mkdirSync(join(model, '2'), { recursive: true });
writeFileSync(join(model, '2', 'model.onnx'), bytes);

console.log(`${model}: version 1 is the sample, in version 2 weight ${INDEX} of ${WEIGHTS}`);
console.log(`is ${bytes.readFloatLE(at).toFixed(4)}, not ${weight.toFixed(4)}`);
