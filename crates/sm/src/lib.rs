//! The subnet manager: discover, plan, judge, apply.
