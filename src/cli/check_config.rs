//! `vote-status serve --check-config`: whether all that the options name can be used. Nothing is changed. Whether an
//! address is free and the store whole is not looked at: only using them would tell.

use super::resolved::Resolved;
use super::{CliError, Exit, exposure, say};

/// Says whether the options are good.
///
/// # Errors
/// Where a file that an option names cannot be used.
pub(super) fn run(resolved: &Resolved) -> Result<Exit, CliError> {
    let Resolved { options, config, key } = resolved;
    key.look()?;
    if let Some(known) = key.key().get() {
        exposure::warn_of_key(known, options.own_data_dir());
    }
    exposure::warn(key.file(), &options.data_dir);
    exposure::warn_of_control(&config.control);
    log::logger().flush();
    let public: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    let (public, control, data_dir) = (public.join(", "), &config.control, options.data_dir.display());
    say(format_args!("the options are good: public {public}; control {control}; data directory {data_dir}"))
}
