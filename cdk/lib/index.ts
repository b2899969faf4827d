export { KarpenterAddOn } from "./addon";
export { KarpenterAddOnProps, Requirement, Taint } from "./props";
