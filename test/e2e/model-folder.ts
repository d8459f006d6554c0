import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A temporary model repository. */
export interface ModelFolder {
  readonly path: string;
  /** Adds a JavaScript model: one input VALUE and one output VALUE, INT32. */
  addJavaScript(name: string, source: string, extraConfig?: string, options?: JavaScriptOptions): void;
  /** Adds a JavaScript model that gives its input INPUT0 back as OUTPUT0; no batching unless a size is given. */
  addEcho(name: string, datatype: string, dims: readonly number[], maxBatchSize?: number): void;
  remove(): void;
}

export interface JavaScriptOptions {
  /** No batching without it. */
  readonly maxBatchSize?: number;
  /** The one dimension of VALUE beside that of the batch, 1 by default. */
  readonly dims?: number;
  /** Of `instance_group`; one on the CPU by default. */
  readonly instances?: string;
}

/** Lines that a model has written down so far: none where the file is not there, or has only just been made. */
export function linesIn(path: string): readonly string[] {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return text.split('\n').filter((line) => line !== '');
}

export function createModelFolder(): ModelFolder {
  const path = mkdtempSync(join(tmpdir(), 'nereid-models-'));
  return {
    path,
    addJavaScript(name, source, extraConfig = '', options = {}) {
      const { maxBatchSize = 0, dims = 1, instances = '{ count: 1, kind: KIND_CPU }' } = options;
      mkdirSync(join(path, name, '1'), { recursive: true });
      writeFileSync(join(path, name, '1', 'model.mjs'), source);
      writeFileSync(
        join(path, name, 'config.pbtxt'),
        `name: "${name}"
backend: "javascript"
max_batch_size: ${maxBatchSize}
input [ { name: "VALUE", data_type: TYPE_INT32, dims: [ ${dims} ] } ]
output [ { name: "VALUE", data_type: TYPE_INT32, dims: [ ${dims} ] } ]
instance_group ${instances}
${extraConfig}
`,
      );
    },
    addEcho(name, datatype, dims, maxBatchSize = 0) {
      mkdirSync(join(path, name, '1'), { recursive: true });
      writeFileSync(
        join(path, name, '1', 'model.mjs'),
        "export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUTPUT0: inputs.get('INPUT0') } }));",
      );
      const type = `data_type: TYPE_${datatype === 'BYTES' ? 'STRING' : datatype}, dims: [ ${dims.join(', ')} ]`;
      writeFileSync(
        join(path, name, 'config.pbtxt'),
        `name: "${name}"
backend: "javascript"
max_batch_size: ${maxBatchSize}
input [ { name: "INPUT0", ${type} } ]
output [ { name: "OUTPUT0", ${type} } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
`,
      );
    },
    remove() {
      rmSync(path, { recursive: true, force: true });
    },
  };
}
