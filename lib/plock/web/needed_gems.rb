# frozen_string_literal: true

# The gems that the pages need. plock does not depend on them, so that applications without the
# pages need not install them. An application with the pages names them in its Gemfile.
{ "rack" => %w[rack 2.2], "erubi" => %w[erubi 1.12] }.each do |file, (gem, oldest)|
  require file
rescue LoadError => e
  raise unless e.path == file

  raise LoadError, "plock/web needs the gem #{gem}, which is not installed here or not in the " \
                   "Gemfile. Add `gem \"#{gem}\", \">= #{oldest}\"` to the Gemfile", cause: e
end
