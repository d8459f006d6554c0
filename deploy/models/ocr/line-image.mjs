// Pictures of one line of text each, decoded and scaled for ocr_recogniser.
// IMAGE: BYTES [n, 1], PNG or JPEG files, or such files in base64; x: FP32 [n, 3, 48, width].
import { decodeImage } from './images.mjs';
import { lineTensor } from './lines.mjs';

/** One response per request, in order. A request may itself be a batch. */
export function execute(requests) {
  return requests.map(({ inputs }) => {
    try {
      const images = inputs.get('IMAGE').data.map(decodeImage);
      const lines = images.map((image) => ({ image, part: { left: 0, top: 0, ...image } }));
      return { outputs: { x: lineTensor(lines) } };
    } catch (error) {
      return error;
    }
  });
}
