# frozen_string_literal: true

require "spec_helper"
require "rbs"

# All methods in sig/ must exist, and must take the keywords that sig/ names.
RSpec.describe "sig/plock.rbs", :databases do
  loader = RBS::EnvironmentLoader.new
  loader.add(path: Pathname(File.expand_path("../sig", __dir__)))
  environment = RBS::Environment.from_loader(loader).resolve_type_names
  builder = RBS::DefinitionBuilder.new(env: environment)
  names =
    environment.class_decls.keys.select do |name|
      name.to_s.match?(/\A::(Plock|Parse|RemoteLock|Mongo|Locker|WithTransactionalLock)\b/)
    end

  # Methods in C, and methods with "**", do not name their keywords. So the keywords are compared
  # only for other methods.
  def keywords(method) =
    method.parameters.filter_map { |kind, name| name if %i[key keyreq].include?(kind) }

  before do
    %w[
      parse/lock
      plock/compat/locker
      plock/compat/mongo_locking
      plock/compat/remote_lock
      plock/compat/with_transactional_lock
      plock/logs
      plock/metrics
      plock/sidekiq
      plock/status/table
      plock/testing/minitest
      plock/traces
      plock/store/advisory
      plock/store/database
      plock/store/memcached
      plock/web/sidekiq
    ].each { |file| require file }
  end

  names.each do |name|
    { build_instance: :instance_method, build_singleton: :method }.each do |build, lookup|
      builder.public_send(build, name).methods.each do |method, definition|
        next unless definition.defined_in == name && definition.public? && method != :initialize

        it "is right about #{name}#{build == :build_instance ? "#" : "."}#{method}" do
          real = Object.const_get(name.to_s).public_send(lookup, method)
          next if real.source_location.nil? || real.parameters.any? { |kind,| kind == :keyrest }

          signed =
            definition.method_types.flat_map do |type|
              [*type.type.optional_keywords.keys, *type.type.required_keywords.keys]
            end
          expect(keywords(real)).to match_array(signed.uniq)
        end
      end
    end
  end
end
