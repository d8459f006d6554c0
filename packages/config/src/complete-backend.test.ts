import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { completeBackend, platformFits } from './complete-backend.ts';
import { ModelConfigSchema } from './gen/model_config_pb.ts';

const file = (name: string) => ({ name, directory: false });
const folder = (name: string) => ({ name, directory: true });

describe('from the files of the first version', () => {
  test.each([
    ['an ONNX file', [file('model.onnx')], 'onnxruntime', 'onnxruntime_onnx', 'model.onnx'],
    ['an ONNX folder', [folder('model.onnx')], 'onnxruntime', 'onnxruntime_onnx', 'model.onnx'],
    ['a plan', [file('model.plan'), file('model.onnx')], 'tensorrt', 'tensorrt_plan', 'model.plan'],
    ['a saved model', [folder('model.savedmodel')], 'tensorflow', 'tensorflow_savedmodel', 'model.savedmodel'],
    ['a graph', [file('model.graphdef')], 'tensorflow', 'tensorflow_graphdef', 'model.graphdef'],
    ['OpenVINO', [file('model.xml')], 'openvino', '', 'model.xml'],
    ['TorchScript', [file('model.pt')], 'pytorch', 'pytorch_libtorch', 'model.pt'],
    ['ahead-of-time torch', [file('model.pt2')], 'pytorch', 'torch_aoti', 'model.pt2'],
    ['Python', [file('model.py')], 'python', '', 'model.py'],
    ['JavaScript', [file('model.mjs'), file('strategy.mjs')], 'javascript', '', 'model.mjs'],
  ])('%s', (_name, files, backend, platform, defaultModelFilename) => {
    expect(completeBackend(create(ModelConfigSchema, { name: 'm' }), files)).toMatchObject({
      backend,
      platform,
      defaultModelFilename,
    });
  });

  test('a file where a folder is needed does not count', () => {
    expect(() => completeBackend(create(ModelConfigSchema, { name: 'm' }), [file('model.savedmodel')])).toThrow();
  });
});

describe('from what the config gives', () => {
  test.each([
    ['backend', { backend: 'onnxruntime' }, 'onnxruntime', 'onnxruntime_onnx', 'model.onnx'],
    ['platform', { platform: 'onnxruntime_onnx' }, 'onnxruntime', 'onnxruntime_onnx', 'model.onnx'],
    ['another name of a platform', { platform: 'libtorch' }, 'pytorch', 'libtorch', 'model.pt'],
    ['file name', { defaultModelFilename: 'model.mjs' }, 'javascript', '', 'model.mjs'],
    [
      'backend and file name',
      { backend: 'onnxruntime', defaultModelFilename: 'x.onnx' },
      'onnxruntime',
      'onnxruntime_onnx',
      'x.onnx',
    ],
    ['a backend of its own', { backend: 'mine' }, 'mine', '', ''],
    [
      'a wrong pair, which the check refuses',
      { backend: 'onnxruntime', platform: 'tensorrt_plan' },
      'onnxruntime',
      'tensorrt_plan',
      '',
    ],
    ['ensemble', { platform: 'ensemble' }, '', 'ensemble', ''],
  ])('%s', (_name, given, backend, platform, defaultModelFilename) => {
    // A file that would say otherwise.
    expect(completeBackend(create(ModelConfigSchema, { name: 'm', ...given }), [file('model.py')])).toMatchObject({
      backend,
      platform,
      defaultModelFilename,
    });
  });

  test('the text after the first dot of the name', () => {
    const completed = completeBackend(create(ModelConfigSchema, { name: 'm.my.own' }), []);
    expect(completed).toMatchObject({ backend: 'my.own', defaultModelFilename: 'model.my.own' });
  });

  test('nothing at all', () => {
    expect(() => completeBackend(create(ModelConfigSchema, { name: 'm' }), undefined)).toThrow(
      "Invalid model name: Could not determine backend for model 'm' with no backend in model configuration. " +
        "Expected model name of the form 'model.<backend_name>'.",
    );
  });

  test('the given config is not changed', () => {
    const config = create(ModelConfigSchema, { name: 'm' });
    completeBackend(config, [file('model.py')]);
    expect(config.backend).toBe('');
  });
});

test.each([
  ['onnxruntime', 'onnxruntime_onnx', true],
  ['onnxruntime', '', false],
  ['pytorch', 'torch_aoti', true],
  ['python', 'anything', true],
  ['mine', 'anything', true],
])('%s with platform "%s": %s', (backend, platform, fits) => {
  expect(platformFits(backend, platform)).toBe(fits);
});
