import { decodeModelConfig, type ModelRecord } from '@nereid/config';
import { ERROR_TABLE, type ErrorInfo } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';

/**
 * The record of a model whose files are at fault, so that there is no config to publish: its
 * greatest version with the reason, or no version where that is what is wrong.
 */
export async function unreadRecord(name: string, error: ErrorInfo, reader: ModelReader): Promise<ModelRecord> {
  const present = error.field === 'version_policy' ? [] : await reader.versions(name);
  const version = present.at(-1);
  const reason = `${ERROR_TABLE[error.code].label}: ${error.message}`;
  return {
    name,
    config: decodeModelConfig(JSON.stringify({ name })),
    labels: {},
    versions: version === undefined ? [] : [{ version, state: 'UNAVAILABLE', reason }],
    contentHash: '',
  };
}

/** What its load answers, in the words of any other failed load. */
export function unreadFailure(record: ModelRecord, error: ErrorInfo): string {
  const [version] = record.versions;
  const detail =
    version === undefined ? error.message : `version ${version.version} is at UNAVAILABLE state: ${version.reason};\n`;
  return `load failed for model '${record.name}': ${detail}`;
}
