import { join } from 'node:path';

/** For tests: the model folders that the recorded cases are served from. */
export const FIXTURES = join(import.meta.dirname, '../../../test/conformance/repo/onnx');
