import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { NereidError } from '@nereid/protocol';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { pathInside } from './model-files.ts';

/** The one that is built in. Triton's are libraries, this one among them. */
const CHECKSUM = 'checksum';

/**
 * Runs the repository agents that a config names, in their order, over the model's files. Throws in Triton's words
 * (its checksum agent, and core's repo_agent.cc) where a file is not as its checksum says, and for an agent that there is not.
 */
export async function runRepositoryAgents(config: ModelConfig, directory: string): Promise<void> {
  const agents = config.modelRepositoryAgents?.agents ?? [];
  // First all names: nothing is to be read for a model that cannot be loaded anyhow.
  for (const [index, { name }] of agents.entries()) {
    if (name === CHECKSUM) continue;
    const text =
      `unable to find 'libtritonrepoagent_${name}.so' for repo agent '${name}': repository agents of libraries are not ` +
      `run here; the one that is built in is '${CHECKSUM}'`;
    throw new NereidError('UNSUPPORTED', text, { field: `model_repository_agents.agents[${index}].name` });
  }
  for (const [index, { parameters }] of agents.entries()) {
    const field = `model_repository_agents.agents[${index}].parameters`;
    for (const [key, expected] of Object.entries(parameters)) await checkSum(directory, key, expected, field);
  }
}

/** `key`: `MD5:<file of the model's folder>`. */
async function checkSum(directory: string, key: string, expected: string, field: string): Promise<void> {
  const [, algorithm, file] = /^([^:]*):(.*)$/s.exec(key) ?? [];
  if (algorithm === undefined || file === undefined) {
    throw new NereidError('INVALID_ARG', `failed to parse key: ${key}; write MD5:<file of the model's folder>`, {
      field,
    });
  }
  if (algorithm.toLowerCase() !== 'md5') {
    throw new NereidError('UNSUPPORTED', `Unsupported checksum algorithm: ${algorithm}; write MD5`, { field });
  }
  const found = await md5Of(pathInside(directory, file, field), file, field);
  if (found === expected) return;
  const text = `Mismatched MD5 hash for file ${file}, expect: ${expected}, got: ${found}`;
  throw new NereidError('INVALID_ARG', text, { field });
}

async function md5Of(path: string, file: string, field: string): Promise<string> {
  try {
    // Opening a pipe would wait for a writer.
    if (!(await stat(path)).isFile()) throw new Error('it is not a regular file');
    const hash = createHash('md5');
    await pipeline(createReadStream(path), hash);
    return hash.digest('hex');
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    const reason = missing ? 'No such file or directory' : error instanceof Error ? error.message : String(error);
    const text = `failed to open text file for read ${file}: ${reason}`;
    throw new NereidError('INVALID_ARG', text, { field, cause: error });
  }
}
