/**
 * @since 0.1.0
 */

/**
 * A model without a model.
 *
 * @since 0.1.0
 */
export * as OfflineModel from "./OfflineModel.js"
