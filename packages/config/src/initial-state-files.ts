/** Files of `initial_state` in a model's folder (sequence_batch_scheduler.cc, GenerateInitialStateData). */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  bytesElements,
  ELEMENT_LENGTH_BYTES,
  elementCount,
  errorInfo,
  fixedByteSize,
  NereidError,
} from '@nereid/protocol';
import { refuseField } from './config-fault.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import { pathInside } from './model-files.ts';
import { type InitialStateSignature, sequenceSignature } from './sequence-signature.ts';

/** The folder beside the config that `data_file` names files of. */
const INITIAL_STATE_FOLDER = 'initial_state';

/** Below the model's folder. */
export function initialStateFiles(config: ModelConfig): string[] {
  return [...new Set(fileStates(config).map(({ file }) => join(INITIAL_STATE_FOLDER, file)))];
}

/**
 * Refuses initial states whose file is not in the folder `initial_state`, or does not hold as much as its
 * dims say, or that all together are larger than may be. Throws a NereidError, in Triton's words where it
 * has some; of a longer file Triton takes what it needs.
 */
export async function checkInitialStates(config: ModelConfig, directory: string): Promise<void> {
  let bytes = 0;
  const count = (more: number) => {
    bytes += more;
    if (bytes <= LIMITS.initial_state_bytes_max) return;
    const text = `the initial states of model '${config.name}' are larger than ${LIMITS.initial_state_bytes_max} bytes`;
    throw new NereidError('INVALID_ARG', text, { field: 'sequence_batching.state' });
  };
  for (const { datatype, dims, initial } of sequenceSignature(config)?.states ?? []) {
    const shape = initial?.dims ?? dims.map((dim) => Math.max(1, dim));
    // Texts of a file are as long as that is, others are empty.
    if (datatype === 'BYTES' && initial?.file !== undefined) continue;
    count(fixedByteSize(datatype, shape) ?? (elementCount(shape) ?? Number.MAX_VALUE) * ELEMENT_LENGTH_BYTES);
  }
  for (const initial of fileStates(config)) {
    const path = pathInside(join(directory, INITIAL_STATE_FOLDER), initial.file, 'data_file', initial.path);
    const size = await fileSize(path, initial.path);
    if (initial.datatype !== 'BYTES') checkSize(initial, size);
    else {
      count(size);
      checkTexts(initial, await readFile(path));
    }
  }
}

/** `path`: of the field that names the file. */
type FileState = InitialStateSignature & { readonly file: string; readonly path: string };

function fileStates(config: ModelConfig): FileState[] {
  const states = sequenceSignature(config)?.states ?? [];
  return states.flatMap(({ initial }, index) => {
    if (initial?.file === undefined) return [];
    const path = `sequence_batching.state[${index}].initial_state[0].data_file`;
    return [{ ...initial, file: initial.file, path }];
  });
}

function checkSize({ datatype, dims, file, path }: FileState, size: number): void {
  const wanted = fixedByteSize(datatype, dims) ?? 0;
  if (size === wanted) return;
  const has = size < wanted ? 'only has' : 'has';
  const text = `initial_state setting expects ${wanted} bytes, but the data provided from ${file} ${has} ${size} bytes.`;
  refuseField(path, text);
}

function checkTexts({ dims, file, path }: FileState, data: Uint8Array): void {
  const elements = elementCount(dims) ?? 0;
  const found = bytesElements(data, file).length;
  if (found === elements) return;
  const text = `initial_state setting expects ${elements} elements, but the data provided from ${file} has ${found}.`;
  refuseField(path, text);
}

async function fileSize(path: string, field: string): Promise<number> {
  try {
    const found = await stat(path);
    if (found.isFile()) return found.size;
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    const why = missing ? 'No such file or directory' : errorInfo(error).message;
    throw new NereidError('INTERNAL', `failed to open text file for read ${path}: ${why}`, { cause: error, field });
  }
  refuseField(field, `'${path}' is not a regular file`);
}
