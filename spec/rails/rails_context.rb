# frozen_string_literal: true

require "support/rails_application"

RSpec.shared_context "with an application of Rails" do
  before do
    missing = Support::RailsApplication.missing
    skip "#{missing} not installed" if missing
  end

  let(:app) { discard(Support::RailsApplication.generate, :remove) }

  # The program's output in the application; it must succeed.
  def told(program, **options)
    output, status = app.runner(program, **options)
    # the error and its place; Rails' own calls follow
    expect(status).to be_success, output.lines.first(20).join
    output
  end
end
