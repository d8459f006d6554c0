import { clone } from '@bufbuild/protobuf';
import { NereidError } from '@nereid/protocol';
import { type ModelConfig, ModelConfigSchema } from './gen/model_config_pb.ts';

/** A file's or folder's name in a version directory. */
export interface VersionFile {
  readonly name: string;
  readonly directory: boolean;
}

interface KnownBackend {
  readonly backend: string;
  /** Platforms that name this backend, the first being what is filled in; empty where it has none. */
  readonly platforms: readonly string[];
  readonly file: string;
  /** Whether the file may be, or must be, a folder. */
  readonly folder: 'never' | 'may' | 'must';
}

/** In the order in which they are tried (core/src/model_config_utils.cc, AutoCompleteBackendFields). */
const KNOWN_BACKENDS: readonly KnownBackend[] = [
  { backend: 'tensorflow', platforms: ['tensorflow_savedmodel'], file: 'model.savedmodel', folder: 'must' },
  { backend: 'tensorflow', platforms: ['tensorflow_graphdef'], file: 'model.graphdef', folder: 'never' },
  { backend: 'tensorrt', platforms: ['tensorrt_plan'], file: 'model.plan', folder: 'never' },
  { backend: 'onnxruntime', platforms: ['onnxruntime_onnx'], file: 'model.onnx', folder: 'may' },
  { backend: 'openvino', platforms: [], file: 'model.xml', folder: 'may' },
  { backend: 'pytorch', platforms: ['pytorch_libtorch', 'libtorch'], file: 'model.pt', folder: 'never' },
  { backend: 'pytorch', platforms: ['torch_aoti'], file: 'model.pt2', folder: 'never' },
  { backend: 'python', platforms: [], file: 'model.py', folder: 'may' },
  // Nereid's own.
  { backend: 'javascript', platforms: [], file: 'model.mjs', folder: 'never' },
];

/**
 * Fills backend, platform and default_model_filename from whichever of them is given, else from the
 * files of the first version directory (undefined where there is none), else from a model name of
 * the form `model.<backend>`. Throws INVALID_ARG when none tells.
 */
export function completeBackend(config: ModelConfig, files: readonly VersionFile[] | undefined): ModelConfig {
  const completed = clone(ModelConfigSchema, config);
  if (config.platform === 'ensemble' || isUnnamedEnsemble(config)) return completed;
  const known = knownBackend(config, files ?? []);
  if (known !== undefined) {
    completed.backend ||= known.backend;
    completed.platform ||= known.platforms[0] ?? '';
    completed.defaultModelFilename ||= known.file;
    return completed;
  }
  if (config.backend !== '' || config.platform !== '' || config.defaultModelFilename !== '') return completed;
  const dot = config.name.indexOf('.');
  if (dot === -1) {
    throw new NereidError(
      'INVALID_ARG',
      `Invalid model name: Could not determine backend for model '${config.name}' with no backend in model ` +
        "configuration. Expected model name of the form 'model.<backend_name>'.",
      { field: 'backend' },
    );
  }
  completed.backend = config.name.slice(dot + 1);
  completed.defaultModelFilename = `model.${completed.backend}`;
  return completed;
}

/** Left for the checks, which name the platform that it lacks; its files tell no backend. */
function isUnnamedEnsemble({ schedulingChoice, backend, platform }: ModelConfig): boolean {
  return schedulingChoice.case === 'ensembleScheduling' && backend === '' && platform === '';
}

function knownBackend(config: ModelConfig, files: readonly VersionFile[]): KnownBackend | undefined {
  if (config.backend !== '') {
    const same = KNOWN_BACKENDS.filter((known) => known.backend === config.backend);
    return (
      same.find((known) => known.platforms.includes(config.platform)) ??
      same.find((known) => config.platform === '' && known.file === config.defaultModelFilename) ??
      (config.platform === '' || same.every(({ platforms }) => platforms.length === 0)
        ? (same.find((known) => holds(files, known)) ?? same[0])
        : undefined)
    );
  }
  if (config.platform !== '') return KNOWN_BACKENDS.find((known) => known.platforms.includes(config.platform));
  if (config.defaultModelFilename !== '') {
    return KNOWN_BACKENDS.find((known) => known.file === config.defaultModelFilename);
  }
  return KNOWN_BACKENDS.find((known) => holds(files, known));
}

function holds(files: readonly VersionFile[], known: KnownBackend): boolean {
  const file = files.find((one) => one.name === known.file);
  return file !== undefined && (known.folder === 'may' || file.directory === (known.folder === 'must'));
}

/** Whether a backend that is known by its platforms goes with this platform. */
export function platformFits(backend: string, platform: string): boolean {
  const same = KNOWN_BACKENDS.filter((known) => known.backend === backend);
  const platforms = same.flatMap((known) => known.platforms);
  return platforms.length === 0 || platforms.includes(platform);
}
